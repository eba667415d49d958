// What a page costs on the wire.

const STEP_MS = 5000;
const LOADS_MS = 60_000; // longer than a page may take to load on a busy machine

/** Counts requests and their answers, and frames of sockets. */
export function count(page) {
  let done = [];
  let frames = 0;
  const open = new Set(); // requests that are not answered yet
  page.on("request", (request) => {
    if (!isOurs(request)) open.add(request);
  });
  // A 304 is answered, and never "finished".
  page.on("response", (response) => {
    done.push(response.request());
    if (response.status() === 304) open.delete(response.request());
  });
  for (const end of ["requestfinished", "requestfailed"]) {
    page.on(end, (request) => open.delete(request));
  }
  page.on("websocket", (socket) => {
    for (const event of ["framesent", "framereceived"]) {
      socket.on(event, ({ payload }) => (frames += payload.length + 6));
    }
  });
  /** Waits until every request was answered, and the page has seen the answers. */
  async function quiet() {
    for (let rounds = 0; rounds < 2; rounds = open.size ? 0 : rounds + 1) {
      await page.evaluate(() => fetch("/healthz"));
    }
  }
  return {
    /** Sums up what a page that was opened costs in so many minutes of its own clock, which stands
     * still before and after: the time that a busy machine takes is no time for the page, and brings
     * no polls of its own. */
    async atRest(minutes) {
      const now = await page.evaluate(() => Date.now());
      await page.clock.pauseAt(now + LOADS_MS);
      for (let second = 0; second < 2; second++) {
        await quiet();
        await page.clock.runFor(1000);
      }
      await quiet();
      done = [];
      frames = 0;
      for (let ms = 0; ms < minutes * 60_000; ms += STEP_MS) {
        await page.clock.runFor(STEP_MS);
        await quiet();
      }
      const cost = await this.sum();
      await page.clock.resume();
      return cost;
    },
    async sum() {
      let bytes = frames;
      const requests = [];
      for (const request of done) {
        if (isOurs(request)) continue;
        const { pathname } = new URL(request.url());
        const total = await weigh(request);
        bytes += total;
        requests.push(`${pathname.replace("/api/v1", "")}=${total}`);
      }
      return { bytes, requests };
    },
  };
}

function isOurs(request) {
  return new URL(request.url()).pathname === "/healthz";
}

/** Bytes of a request and its answer. Of a 304 Playwright knows no sizes: it is headers alone. */
async function weigh(request) {
  const response = await request.response();
  if (response?.status() === 304) {
    const headers = {
      ...(await request.allHeaders()),
      ...(await response.allHeaders()),
    };
    const lines = Object.entries(headers).map(
      ([name, value]) => name.length + value.length + 4,
    );
    return lines.reduce((sum, line) => sum + line, 0);
  }
  const parts = Object.values(await request.sizes()).filter((part) => part > 0);
  return parts.reduce((sum, part) => sum + part, 0);
}
