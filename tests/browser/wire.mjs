// What a page costs on the wire.

/** Counts requests and their answers, and frames of sockets. */
export function count(page) {
  let done = [];
  let frames = 0;
  // A 304 is answered, and never "finished".
  page.on("response", (response) => done.push(response.request()));
  page.on("websocket", (socket) => {
    for (const event of ["framesent", "framereceived"]) {
      socket.on(event, ({ payload }) => (frames += payload.length + 6));
    }
  });
  return {
    async reset() {
      done = [];
      frames = 0;
    },
    async sum() {
      let bytes = frames;
      const requests = [];
      for (const request of done) {
        const { pathname } = new URL(request.url());
        if (pathname === "/healthz") continue; // our own
        const total = await weigh(request);
        bytes += total;
        requests.push(`${pathname.replace("/api/v1", "")}=${total}`);
      }
      return { bytes, requests };
    },
  };
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

/** Lets what the clock has set off come to its end. */
export async function settle(page) {
  await page.evaluate(() => fetch("/healthz"));
}
