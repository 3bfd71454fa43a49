"""Signs tokens with PyJWT. Argument: JSON list of {alg, claims}."""

import base64
import json
import os
import sys

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import algorithms

CURVES = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1}


def new_key(alg):
    if alg in CURVES:
        return ec.generate_private_key(CURVES[alg]()), algorithms.ECAlgorithm
    if alg == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate(), algorithms.OKPAlgorithm
    return rsa.generate_private_key(65537, 2048), algorithms.RSAAlgorithm


def main():
    tokens, keys = [], []
    for index, request in enumerate(json.loads(sys.argv[1])):
        alg, kid = request["alg"], f"pyjwt-{index}"
        if alg.startswith("HS"):
            key = os.urandom(32)
            keys.append(base64.urlsafe_b64encode(key).rstrip(b"=").decode())
        else:
            key, writer = new_key(alg)
            public = json.loads(writer.to_jwk(key.public_key()))
            keys.append({**public, "kid": kid, "alg": alg})
        tokens.append(jwt.encode(request["claims"], key, algorithm=alg, headers={"kid": kid}))
    json.dump({"tokens": tokens, "keys": keys}, sys.stdout)


main()
