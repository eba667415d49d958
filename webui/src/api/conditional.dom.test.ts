import { expect, test, vi } from "vitest";
import { conditionalFetch } from "./conditional";

const URL_OF_LIST = "http://localhost/api/v1/jobs";

function answer(status: number, body: unknown, etag: string): Response {
  const headers = { "Content-Type": "application/json", ETag: etag };
  // A 226 cannot be made in jsdom's stead of a server but by its number.
  return new Response(status === 304 ? null : JSON.stringify(body), { status, headers });
}

test("finding U21: of a list come only rows that changed, and the page sees it whole", async () => {
  const requests: Request[] = [];
  const answers = [
    answer(
      226,
      { results: [{ id: 1 }, { id: 2 }, { id: 3 }], row_tags: "aaaaaabbbbbbcccccc", next: null },
      '"1"',
    ),
    answer(
      226,
      { results: [{ id: 9 }, [0, 2], { id: 3, new: true }], row_tags: "ddddddeeeeee", next: null },
      '"2"',
    ),
    answer(304, null, '"2"'),
  ];
  vi.stubGlobal("fetch", async (request: Request) => {
    requests.push(request);
    return answers.shift();
  });
  const read = async () => (await conditionalFetch(new Request(URL_OF_LIST))).json();
  expect(await read()).toEqual({ results: [{ id: 1 }, { id: 2 }, { id: 3 }], next: null });
  const changed = { results: [{ id: 9 }, { id: 1 }, { id: 2 }, { id: 3, new: true }], next: null };
  expect(await read()).toEqual(changed);
  expect(await read()).toEqual(changed);
  const sent = requests.map((request) => request.headers);
  expect(sent.map((headers) => headers.get("If-None-Match"))).toEqual([null, '"1"', '"2"']);
  expect(sent.map((headers) => headers.get("Skep-Row-Tags"))).toEqual([
    null,
    "aaaaaabbbbbbcccccc",
    "ddddddaaaaaabbbbbbeeeeee",
  ]);
});

test("a refusal is passed on and is no copy", async () => {
  vi.stubGlobal("fetch", async () => answer(404, { code: "not_found" }, '"x"'));
  const refused = await conditionalFetch(new Request("http://localhost/api/v1/jobs/none"));
  expect(refused.status).toBe(404);
  expect(await refused.json()).toEqual({ code: "not_found" });
});
