// Signs tokens with jose. Arguments: directory of the packages, JSON list of {alg, claims}.
import { pathToFileURL } from 'node:url';

const [modules, requests] = process.argv.slice(1);
const jose = await import(pathToFileURL(`${modules}/jose/dist/webapi/index.js`).href);
const tokens = [];
const keys = [];
for (const [index, { alg, claims }] of JSON.parse(requests).entries()) {
  const kid = `jose-${index}`;
  const signed = new jose.SignJWT(claims).setProtectedHeader({ alg, kid, typ: 'JWT' });
  if (alg.startsWith('HS')) {
    const secret = await jose.generateSecret(alg, { extractable: true });
    tokens.push(await signed.sign(secret));
    keys.push((await jose.exportJWK(secret)).k);
  } else {
    const { privateKey, publicKey } = await jose.generateKeyPair(alg);
    tokens.push(await signed.sign(privateKey));
    keys.push({ ...(await jose.exportJWK(publicKey)), kid, alg, use: 'sig' });
  }
}
process.stdout.write(JSON.stringify({ tokens, keys }));
