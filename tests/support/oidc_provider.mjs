// A certified OpenID provider for tests, which logs everyone in as the account that was set last.
// node oidc_provider.mjs MODULE REDIRECT_URI: prints its issuer, and ends with its standard input.
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [, , modulePath, redirectUri] = process.argv;
const { Provider } = await import(pathToFileURL(modulePath).href);
let account = { sub: "none" };

const server = createServer();
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [
    { client_id: "skep", client_secret: "a-secret-of-the-client", redirect_uris: [redirectUri] },
  ],
  claims: {
    openid: ["sub"],
    profile: ["preferred_username"],
    email: ["email", "email_verified"],
    groups: ["groups"],
  },
  scopes: ["openid", "profile", "email", "groups"],
  pkce: { required: () => true },
  cookies: { keys: ["a-key-of-the-test"] },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ ...account, sub }) }),
  async loadExistingGrant({ oidc }) {
    const ids = { clientId: oidc.client.clientId, accountId: oidc.session.accountId };
    const grant = new oidc.provider.Grant(ids);
    grant.addOIDCScope("openid profile email groups");
    await grant.save();
    return grant;
  },
});
const handle = provider.callback();

server.on("request", async (request, response) => {
  if (request.url === "/account") {
    let body = "";
    for await (const part of request) body += part;
    account = JSON.parse(body);
    response.end();
  } else if (request.url.startsWith("/interaction/")) {
    const result =
      account.sub === "refused"
        ? { error: "access_denied", error_description: "no" }
        : { login: { accountId: account.sub } };
    await provider.interactionFinished(request, response, result);
  } else {
    handle(request, response);
  }
});
process.stdin.on("end", () => process.exit()).resume();
console.log(issuer);
