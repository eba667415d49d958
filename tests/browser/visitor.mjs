// What all scenarios share: a page that is watched, and what a visitor does again and again.
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const webui = new URL("../../webui/package.json", import.meta.url);
const fromWebui = createRequire(webui);
const ROUTER = new URL("../../webui/src/app/router.tsx", import.meta.url);
// The packages are those of the web UI, which has the only package.json.
const { test: base, expect } = fromWebui("@playwright/test");
export { expect };

/** The file of axe-core, to be run inside a page. */
const AXE = fromWebui.resolve("axe-core/axe.min.js");

export const settings = {
  url: process.env.SKEP_URL,
  user: process.env.SKEP_USER,
  password: process.env.SKEP_PASSWORD,
  image: process.env.SKEP_IMAGE ?? "",
  shots: process.env.SKEP_SHOTS ?? "/tmp",
};

/** Security keys need a host by name; single sign-on goes to the provider and back. */
const OWN_ORIGINS = [
  settings.url,
  settings.url?.replace("127.0.0.1", "localhost"),
  process.env.SKEP_ISSUER,
];

/** `page` is that of one visitor. `browse(visit, { colorScheme })` gives `visit` the page of another
 * one, in a context of its own. After each of them the test fails when the page broke anything on
 * the way: an exception, an error in the console, a request to anywhere but our own server. */
export const test = base.extend({
  page: async ({ browser, colorScheme, contextOptions, baseURL, viewport }, use, info) => {
    const visit = await open(browser, {
      ...contextOptions,
      baseURL,
      viewport,
      colorScheme,
    });
    await use(visit.page);
    await visit.close(info.errors.length > 0);
  },
  browse: async ({ browser, contextOptions, baseURL, viewport }, use) => {
    await use(async (visitor, { colorScheme = "light" } = {}) => {
      const visit = await open(browser, {
        ...contextOptions,
        baseURL,
        viewport,
        colorScheme,
      });
      let failed = true;
      try {
        await visitor(visit.page);
        failed = false;
      } finally {
        await visit.close(failed);
      }
    });
  },
});

async function open(browser, options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const goto = page.goto.bind(page);
  page.goto = (...where) => persist(page, () => goto(...where));
  const { complaints, lost } = listen(page);
  const close = async (failed) => {
    if (failed || complaints.length > 0) {
      await shoot(page, "failure").catch(() => {});
      console.log([`at ${page.url()}`, ...complaints, ...lost.slice(-20)].join("\n"));
    }
    await context.close();
    if (!failed) expect(complaints, "the page complained").toEqual([]);
  };
  return { page, close };
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
    const ours = OWN_ORIGINS.includes(origin) || ["data:", "blob:"].includes(protocol);
    if (!ours) complaints.push(`request to ${request.url()}`);
  });
  return { complaints, lost };
}

/** Chromium reports each refusal of the API, which scenarios provoke on purpose, and lost
 * connections while a server restarts or the machine's networks change. */
function isExpected(message) {
  return /Failed to load resource|WebSocket connection|ERR_NETWORK_CHANGED/.test(message.text());
}

export async function logIn(page, { user = settings.user, password = settings.password } = {}) {
  await page.goto("/login");
  await page.getByLabel("User name").fill(user);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Log in", exact: true }).click();
  await page.getByRole("heading", { name: "Home", exact: true }).waitFor();
}

/** Replaces all text of the editor: again, where the text that a new draft begins with came between. */
export async function write(page, text) {
  const content = page.getByRole("textbox", { name: "Job file" });
  const begin = text.slice(0, 400).replaceAll("\n", "");
  await expect(async () => {
    await content.click();
    await page.keyboard.press("Control+A");
    await page.keyboard.insertText(text);
    expect((await content.textContent()).startsWith(begin), "the editor has other text").toBe(true);
  }).toPass({ timeout: 60_000 });
}

/** Pictures of the page as it stands, on a desk in the light scheme and on a phone in the dark one. */
export async function shootBoth(page, name) {
  const before = page.viewportSize();
  await shoot(page, `${name}-light`);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot(page, `${name}-dark`);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width, `${name} is wider than a phone`).toBeLessThanOrEqual(390);
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(before);
}

export async function shoot(page, name) {
  await page.screenshot({ path: join(settings.shots, `${name}.png`), animations: "disabled" });
}

export function jobFile({ name, command = "echo hello", gpus = 1, tasks = 1, image = settings.image }) {
  return `protocolVersion: 2
name: ${name}
type: job
prerequisites:
  - name: image
    type: dockerimage
    uri: "${image}"
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

/** Calls the API as the page's visitor, for what a scenario needs and does not show. */
export function ask(page, method, path, body) {
  const key = randomUUID();
  return persist(page, () => page.evaluate(call, [method, path, body, key]));
}

/** Chromium fails requests when a network of the machine comes or goes, as those of gangs do: what a
 * scenario itself asks for is repeated. */
async function persist(page, action) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await action();
    } catch (error) {
      const passing = /Failed to fetch|ERR_NETWORK_CHANGED|context was destroyed/;
      if (tries === 5 || !passing.test(error.message)) throw error;
      await page.waitForTimeout(200 * tries);
    }
  }
}

/** Runs in the page. The key makes a repeated submit the same job. */
async function call([method, path, body, key]) {
  const token = /skep_csrf=([^;]+)/.exec(document.cookie)?.[1] ?? "";
  const isText = typeof body === "string";
  const answer = await fetch(`/api/v1${path}`, {
    method,
    headers: {
      "Content-Type": isText ? "application/yaml" : "application/json",
      "X-CSRFToken": token,
      ...(isText && { "Idempotency-Key": key }),
    },
    body: body && (isText ? body : JSON.stringify(body)),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${await answer.text()}`);
  return answer.status === 204 ? null : answer.json();
}

/** A name that no job of an earlier run has. */
export function freshName(name) {
  return `${name}-${Date.now().toString(36)}`;
}

/** Waits until a job has this state. */
export async function reach(page, job, state) {
  for (;;) {
    const now = await ask(page, "GET", `/jobs/${job.id}`);
    if (now.state === state) return;
    await page.waitForTimeout(300);
  }
}

/** Every address of the web UI's router. */
export function routes() {
  const source = readFileSync(ROUTER, "utf8");
  return [...source.matchAll(/path: "([^"]+)"/g)].map(([, path]) => path);
}

/** Whether a path is one of this address. */
export function matches(route, path) {
  const pattern = route.replace(/\$\w+/g, "[^/?]+");
  return new RegExp(`^${pattern}(\\?.*)?$`).test(path);
}

/** What axe-core finds on the page as it stands; `rules` names those that are asked, all if none. */
export async function axe(page, rules = []) {
  if (!(await page.evaluate(() => "axe" in window)))
    await page.evaluate(readFileSync(AXE, "utf8"));
  return page.evaluate(async (only) => {
    const still = new CSSStyleSheet();
    still.replaceSync("* { transition: none !important; animation: none !important; }");
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const { violations } = await window.axe.run(document, {
      resultTypes: ["violations"],
      ...(only.length > 0 ? { runOnly: only } : {}),
    });
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== still);
    return violations.flatMap(({ id, nodes }) =>
      nodes
        .slice(0, 3)
        .map((node) => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary.slice(0, 300)}`),
    );
  }, rules);
}

/** Nothing scrolls sideways but a table inside its own frame, and nothing lies beyond the edge. After
 * a change of width the sidebar still slides out for a moment, so the page may take a little to fit. */
export async function expectToFit(page, path) {
  await page.locator("main, [data-page]").first().waitFor();
  await page.waitForLoadState("networkidle");
  await expect(async () => {
    const { wider, cut } = await page.evaluate(measure);
    expect(
      wider,
      `${path} is ${wider} px wider than the screen`,
    ).toBeLessThanOrEqual(0);
    expect(
      cut,
      `${path} has buttons and headings beyond the edge of the screen`,
    ).toEqual([]);
  }).toPass({ timeout: 5_000 });
}

/** Runs in the page: how far it scrolls sideways, and what cannot be reached at all, since nothing
 * around it scrolls. */
function measure() {
  const screen = document.documentElement;
  const scrolls = (element) => {
    for (let outer = element.parentElement; outer; outer = outer.parentElement)
      if (/auto|scroll/.test(getComputedStyle(outer).overflowX)) return true;
    return false;
  };
  const cut = [...document.querySelectorAll("h1, h2, h3, button, a, input")]
    .filter((element) => element.checkVisibility({ opacityProperty: true }))
    .filter((element) => {
      const { left, right, width } = element.getBoundingClientRect();
      return (
        width > 1 && right > 0 && (right > screen.clientWidth + 1 || left < -1)
      );
    })
    .filter((element) => !scrolls(element))
    .map((element) => element.outerHTML.slice(0, 160));
  return { wider: screen.scrollWidth - screen.clientWidth, cut };
}
