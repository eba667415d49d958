// A stand-in for the server, for work on the pages alone: `node dev/mock.mjs`, then `npm run dev`.
// It knows enough of the API to fill every page, and forgets everything when it ends.
import { createServer } from "node:http";
import { acceptLive } from "./mock-live.mjs";
import * as data from "./mock-data.mjs";

const PORT = Number(process.env.PORT ?? 8470);
let user = process.env.MOCK_LOGGED_IN === "0" ? null : data.me;

const refuse = (status, code, message, details = {}) => ({
  status,
  body: { code, message, details },
});

function page(rows, url, size = 50) {
  const limit = Number(url.searchParams.get("limit") ?? size);
  const from = Number(url.searchParams.get("cursor") ?? 0);
  const link = (cursor) => {
    const address = new URL(url);
    address.searchParams.set("cursor", cursor);
    return address.href;
  };
  return {
    results: rows.slice(from, from + limit),
    next: from + limit < rows.length ? link(from + limit) : null,
    previous: from > 0 ? link(Math.max(0, from - limit)) : null,
  };
}

const routes = [
  ["GET /info", () => ({ name: "Skep", version: "0.1.0" })],
  ["GET /auth/csrf", () => ({})],
  [
    "POST /auth/login",
    ({ body }) => {
      if (body.password !== "honey")
        return refuse(400, "login_failed", "The user name or the password is wrong.");
      user = { ...data.me, username: body.username };
      return user;
    },
  ],
  ["POST /auth/logout", () => ((user = null), {})],
  ["GET /me", () => user],
  ["GET /auth/tokens", () => data.tokens],
  ["POST /auth/tokens", ({ body }) => data.newToken(body)],
  ["DELETE /auth/tokens/:id", ({ id }) => (data.drop(data.tokens, "id", id), {})],
  ["GET /cluster", () => data.clusterSummary()],
  ["GET /nodes", ({ url }) => page(data.nodes, url)],
  ["POST /nodes/join-tokens", () => data.joinToken()],
  ["POST /nodes/:name/:verb", ({ name, verb }) => data.cordon(name, verb === "cordon")],
  [
    "DELETE /nodes/:name",
    () => refuse(409, "node_busy", "3 task attempts still run on this node."),
  ],
  ["GET /virtual-clusters", ({ url }) => page(data.vcs, url)],
  ["POST /virtual-clusters", ({ body }) => data.newVc(body)],
  ["PATCH /virtual-clusters/:name", ({ name, body }) => Object.assign(data.vc(name), body)],
  ["DELETE /virtual-clusters/:name", ({ name }) => (data.drop(data.vcs, "name", name), {})],
  [
    "PUT /virtual-clusters/:name/quotas",
    ({ name, body }) => data.setQuotas(name, body.quotas) ?? refuse(...data.quotaRefusal),
  ],
  ["GET /virtual-clusters/:name/members", ({ url }) => page(data.members, url)],
  ["PUT /virtual-clusters/:name/members/:who", ({ who, body }) => data.setMember(who, body.role)],
  [
    "DELETE /virtual-clusters/:name/members/:who",
    ({ who }) => (data.drop(data.members, "username", who), {}),
  ],
  ["GET /images", ({ url }) => page(data.images, url)],
  ["POST /images", ({ body }) => (data.images.push(body), body)],
  ["PATCH /images/:name", ({ name, body }) => Object.assign(data.image(name), body)],
  ["DELETE /images/:name", ({ name }) => (data.drop(data.images, "name", name), {})],
  ["GET /users", ({ url }) => page(data.users, url)],
  ["POST /users", ({ body }) => (data.users.push({ ...body, is_active: true }), body)],
  ["PATCH /users/:name", ({ name, body }) => Object.assign(data.person(name), body)],
  ["GET /jobs/schema", () => data.schema],
  ["POST /jobs/check", ({ body }) => data.check(body)],
  ["GET /jobs", ({ url }) => page(data.findJobs(url.searchParams), url)],
  ["POST /jobs", ({ body }) => data.submit(body)],
  ["GET /jobs/:id", ({ id }) => data.jobDetail(id) ?? notFound()],
  ["POST /jobs/:id/stop", ({ id }) => data.stop(id)],
  ["GET /jobs/:id/tasks", ({ id, url }) => page(data.tasksOf(id), url)],
  ["GET /jobs/:id/events", ({ id, url }) => page(data.eventsOf(id), url)],
  ["GET /jobs/:id/metrics", ({ id }) => data.metricsOf(id)],
  ["GET /jobs/:id/logs", ({ id, url }) => data.logsOf(id, url.searchParams)],
];

const notFound = () => refuse(404, "not_found", "There is no such thing.");

function route(method, path) {
  for (const [pattern, handle] of routes) {
    const [verb, shape] = pattern.split(" ");
    const expression = new RegExp(`^${shape.replace(/:(\w+)/g, "(?<$1>[^/]+)")}$`);
    const match = verb === method && expression.exec(path);
    if (match) return (context) => handle({ ...context, ...match.groups });
  }
  return () => notFound();
}

async function read(request) {
  let text = "";
  for await (const chunk of request) text += chunk;
  const json = request.headers["content-type"]?.includes("json");
  return json && text ? JSON.parse(text) : text;
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, `http://${request.headers.host}`);
  const path = url.pathname.replace(/^\/api\/v1/, "");
  const body = await read(request);
  const open = /^\/(info|auth\/(login|csrf))$/.test(path);
  const answer =
    user || open
      ? route(request.method, path)({ url, body })
      : refuse(401, "not_authenticated", "Log in first.");
  const refused = typeof answer?.status === "number" && answer.body;
  setTimeout(
    () => {
      response.writeHead(refused ? answer.status : 200, {
        "Content-Type": "application/json",
        "Set-Cookie": "skep_csrf=mock; Path=/",
      });
      response.end(JSON.stringify(refused ? answer.body : answer));
    },
    Number(process.env.MOCK_DELAY ?? 40),
  );
});

server.on("upgrade", (request, socket) => acceptLive(request, socket, data.onTick));
server.listen(PORT, "127.0.0.1", () => console.log(`http://127.0.0.1:${PORT}`));
