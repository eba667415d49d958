// A visitor with a browser: what all scenarios share. Run one by hand with
//   SKEP_URL=... SKEP_USER=... SKEP_PASSWORD=... node tests/browser/run.mjs submit_and_watch
import { createRequire } from "node:module";
import { join } from "node:path";

const webui = new URL("../../webui/package.json", import.meta.url);
const { chromium } = createRequire(webui)("playwright-core");

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export const settings = {
  url: process.env.SKEP_URL,
  user: process.env.SKEP_USER,
  password: process.env.SKEP_PASSWORD,
  image: process.env.SKEP_IMAGE ?? "",
  shots: process.env.SKEP_SHOTS ?? "/tmp",
};

/** Gives `visit` a fresh page; afterwards fails when the page broke anything on the way: an
 * exception, a complaint in the console, a request to anywhere but our own server. */
export async function browse(visit, { colorScheme = "light" } = {}) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: FLAGS,
  });
  const context = await browser.newContext({
    baseURL: settings.url,
    viewport: { width: 1440, height: 900 },
    colorScheme,
  });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const { complaints, lost } = listen(page);
  try {
    await visit(page);
    if (complaints.length > 0) throw new Error(`the page complained:\n${complaints.join("\n")}`);
  } catch (error) {
    await shoot(page, "failure").catch(() => {});
    error.message += `\nat ${page.url()}\n${[...complaints, ...lost].join("\n")}`;
    throw error;
  } finally {
    await browser.close();
  }
}

/** What the page broke, and what it did not get: the latter tells only why a scenario failed. */
function listen(page) {
  const complaints = [];
  const lost = [];
  page.on("requestfailed", (request) => {
    lost.push(`${request.method()} ${request.url()}: ${request.failure()?.errorText}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) lost.push(`${response.status()} of ${response.url()}`);
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !isExpected(message)) complaints.push(message.text());
  });
  page.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    const ours = origin === settings.url || ["data:", "blob:"].includes(protocol);
    if (!ours) complaints.push(`request to ${request.url()}`);
  });
  return { complaints, lost };
}

/** Chromium reports each refusal of the API, which scenarios provoke on purpose, and lost
 * connections while a server restarts. */
function isExpected(message) {
  return /Failed to load resource|WebSocket connection/.test(message.text());
}

export async function logIn(page, { user = settings.user, password = settings.password } = {}) {
  await page.goto("/login");
  await page.getByLabel("User name").fill(user);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Jobs", exact: true }).waitFor();
}

/** Replaces all text of the editor. */
export async function write(page, text) {
  const content = page.getByRole("textbox", { name: "Job file" });
  await content.click();
  await page.keyboard.press("Control+A");
  await page.keyboard.insertText(text);
}

export async function shoot(page, name) {
  await page.screenshot({ path: join(settings.shots, `${name}.png`) });
}

export function jobFile({ name, command, gpus = 1, tasks = 1 }) {
  return `protocolVersion: 2
name: ${name}
type: job
prerequisites:
  - name: image
    type: dockerimage
    uri: "${settings.image}"
taskRoles:
  worker:
    instances: ${tasks}
    dockerImage: image
    resourcePerInstance:
      cpu: 1
      memoryMB: 64
      gpu: ${gpus}
    commands:
      - ${command}
defaults:
  virtualCluster: default
`;
}

/** Asks the API as the page's visitor, for what a scenario needs and does not show. */
export function ask(page, method, path, body) {
  return page.evaluate(
    async ([method, path, body]) => {
      const token = /skep_csrf=([^;]+)/.exec(document.cookie)?.[1] ?? "";
      const isText = typeof body === "string";
      const answer = await fetch(`/api/v1${path}`, {
        method,
        headers: {
          "Content-Type": isText ? "application/yaml" : "application/json",
          "X-CSRFToken": token,
        },
        body: body && (isText ? body : JSON.stringify(body)),
      });
      if (!answer.ok) throw new Error(`${method} ${path}: ${await answer.text()}`);
      return answer.status === 204 ? null : answer.json();
    },
    [method, path, body],
  );
}

/** A name that no job of an earlier run has. */
export function freshName(name) {
  return `${name}-${Date.now().toString(36)}`;
}

export function expect(condition, story) {
  if (!condition) throw new Error(story);
}
