// Issuers of access tokens for tests: each is an unmodified oidc-provider with its own port, keys and
// faults. Arguments: directory of the packages, host, port of the control requests, ports of issuers.
//
// Control requests are POST with a JSON body and get a JSON response:
//   /issuer   {algorithm}                                  {id, url, key}
//   /token    {id, user, audience, lifetime_s, claims}     {token}
//   /key      {id, algorithm}                              {key}     published, not used yet
//   /sign     {id, key}                                    {}        used for the next tokens
//   /withdraw {id, key}                                    {}        no longer published
//   /fault    {id, fault, status, delay_ms}                {}
//   /requests {id}                                         {discovery, keys, tokens}
import crypto from 'node:crypto';
import http from 'node:http';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, host, controlPort, ...ports] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(path.join(modules, file)).href);
const { Provider } = await load('oidc-provider/lib/index.js');

const RESOURCE = 'urn:weir:test';
const SECRET = crypto.randomBytes(24).toString('base64url');
const CURVES = { ES256: 'P-256', ES384: 'P-384' };
const DISCOVERY = '/.well-known/openid-configuration';
const issuers = [];

function newKey(algorithm) {
  const [type, options] =
    algorithm in CURVES ? ['ec', { namedCurve: CURVES[algorithm] }]
    : algorithm === 'EdDSA' ? ['ed25519', {}]
    : ['rsa', { modulusLength: 2048 }];
  const { privateKey } = crypto.generateKeyPairSync(type, options);
  const kid = crypto.randomBytes(8).toString('hex');
  return { ...privateKey.export({ format: 'jwk' }), kid, alg: algorithm, use: 'sig' };
}

/** Storage of a provider. Its clients are the users of its issuer. */
const storage = (issuer) => class {
  constructor(kind) {
    this.kind = kind;
    this.entries = new Map();
  }

  async find(id) {
    return this.kind === 'Client' ? issuer.client(id) : this.entries.get(id);
  }

  async upsert(id, entry) {
    this.entries.set(id, entry);
  }

  async destroy(id) {
    this.entries.delete(id);
  }

  async consume() {}
};

class Issuer {
  constructor(port, algorithm) {
    this.port = port;
    this.url = `http://${host}:${port}`;
    this.keys = [newKey(algorithm)];
    this.signing = this.keys[0];
    this.users = new Map();
    this.fault = { fault: 'none' };
    this.requests = { discovery: 0, keys: 0, tokens: 0 };
    this.tokens = Promise.resolve();
    this.renew();
  }

  /** Replaces the provider: its keys are fixed. */
  renew() {
    const provider = new Provider(this.url, {
      adapter: storage(this),
      jwks: { keys: this.keys },
      enabledJWA: { idTokenSigningAlgValues: [...new Set(this.keys.map((key) => key.alg))] },
      clientDefaults: { id_token_signed_response_alg: this.signing.alg },
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: (context, resource, { clientId }) => this.server(clientId),
        },
      },
      extraTokenClaims: (context, { clientId }) => this.users.get(clientId).claims,
    });
    provider.on('server_error', (context, error) => console.error(error));
    this.answer = provider.callback();
  }

  client(id) {
    const grant = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [] };
    return this.users.has(id) && { client_id: id, client_secret: SECRET, ...grant };
  }

  server(id) {
    const { audience, lifetime_s } = this.users.get(id);
    const sign = { alg: this.signing.alg, kid: this.signing.kid };
    return { scope: '', audience, accessTokenTTL: lifetime_s, accessTokenFormat: 'jwt', jwt: { sign } };
  }

  listen() {
    this.socket = http.createServer((request, response) => this.handle(request, response));
    return new Promise((resolve) => this.socket.listen(this.port, host, resolve));
  }

  close() {
    const closed = new Promise((resolve) => this.socket.close(resolve));
    this.socket.closeAllConnections();
    this.socket = null;
    return closed;
  }

  handle(request, response) {
    const kind = { [DISCOVERY]: 'discovery', '/jwks': 'keys', '/token': 'tokens' }[request.url];
    if (kind) this.requests[kind] += 1;
    const { fault, status, delay_ms } = this.fault;
    if (fault === 'status') return response.writeHead(status).end('out of order');
    if (fault !== 'slow') return this.answer(request, response);
    return setTimeout(() => this.answer(request, response), delay_ms);
  }

  async setFault(fault) {
    this.fault = fault;
    if (fault.fault === 'refused' && this.socket) await this.close();
    if (fault.fault !== 'refused' && !this.socket) await this.listen();
    return {};
  }

  /** Returns a token from the token endpoint. One after the other: a user has one set of claims. */
  token({ user, ...options }) {
    const request = async () => {
      this.users.set(user, options);
      const credentials = `${encodeURIComponent(user)}:${SECRET}`;
      const response = await fetch(`${this.url}/token`, {
        method: 'POST',
        headers: { Authorization: `Basic ${Buffer.from(credentials).toString('base64')}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', resource: RESOURCE }),
      });
      const { access_token: token, ...rest } = await response.json();
      if (!token) throw new Error(JSON.stringify(rest));
      return { token };
    };
    const token = this.tokens.then(request);
    this.tokens = token.catch(() => {});
    return token;
  }

  addKey(algorithm) {
    const key = newKey(algorithm);
    this.keys.push(key);
    this.renew();
    return { key: key.kid };
  }

  sign(kid) {
    this.signing = this.find(kid);
    this.renew();
    return {};
  }

  withdraw(kid) {
    const key = this.find(kid);
    if (key === this.signing) throw new Error('this key signs the tokens');
    this.keys.splice(this.keys.indexOf(key), 1);
    this.renew();
    return {};
  }

  find(kid) {
    const key = this.keys.find((one) => one.kid === kid);
    if (!key) throw new Error(`no key ${kid}`);
    return key;
  }
}

async function newIssuer(algorithm) {
  const port = ports[issuers.length];
  if (!port) throw new Error(`more than ${ports.length} issuers`);
  const issuer = new Issuer(port, algorithm);
  issuers.push(issuer);
  await issuer.listen();
  return { id: issuers.length - 1, url: issuer.url, key: issuer.signing.kid };
}

const COMMANDS = {
  '/issuer': ({ algorithm }) => newIssuer(algorithm),
  '/token': ({ id, ...options }) => issuers[id].token(options),
  '/key': ({ id, algorithm }) => issuers[id].addKey(algorithm),
  '/sign': ({ id, key }) => issuers[id].sign(key),
  '/withdraw': ({ id, key }) => issuers[id].withdraw(key),
  '/fault': ({ id, ...fault }) => issuers[id].setFault(fault),
  '/requests': ({ id }) => issuers[id].requests,
};

async function control(request, response) {
  if (request.url === '/ready') return response.end('{}');
  try {
    const chunks = await Array.fromAsync?.(request) ?? await request.toArray();
    const body = JSON.parse(Buffer.concat(chunks).toString());
    response.end(JSON.stringify(await COMMANDS[request.url](body)));
  } catch (error) {
    response.writeHead(400).end(error.message);
  }
}

http.createServer(control).listen(Number(controlPort), host);
