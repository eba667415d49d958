import { trackedFetch } from "./connection";

/** The last answer to a GET, and for a list the tags by which the server knows its rows. */
interface Copy {
  etag: string;
  body: string;
  rows: unknown[];
  tags: string[];
}

/** A list of which the server left out what the page has: rows, or [first, count] of the copy's. */
interface Delta {
  results: unknown[];
  row_tags: string;
  [other: string]: unknown;
}

const MOST_COPIES = 60;
const LARGEST = 2_000_000; // characters
const TAG = 6; // characters

/** Lines of a log are read once. */
const LOGS = /\/logs\b/;

const copies = new Map<string, Copy>();

/** `fetch` that names what the page already has: an answer that is the same comes as a 304, of a
 * list come only the rows that changed. The caller sees the whole answer. */
export async function conditionalFetch(request: Request): Promise<Response> {
  if (request.method !== "GET" || LOGS.test(request.url)) return trackedFetch(request);
  const copy = copies.get(request.url);
  const headers = new Headers(request.headers);
  headers.set("A-IM", "rows");
  if (copy) headers.set("If-None-Match", copy.etag);
  if (copy?.tags.length) headers.set("Skep-Row-Tags", copy.tags.join(""));
  const response = await trackedFetch(new Request(request, { headers }));
  if (response.status === 304 && copy) {
    keep(request.url, copy);
    return asWhole(copy);
  }
  const etag = response.headers.get("ETag");
  if (!etag || !response.ok) return response;
  const text = await response.text();
  const fresh =
    response.status === 226
      ? merge(etag, JSON.parse(text) as Delta, copy)
      : { etag, body: text, rows: [], tags: [] };
  keep(request.url, fresh);
  return asWhole(fresh);
}

/** The whole list, put together from the delta and the copy. */
export function merge(etag: string, delta: Delta, copy: Copy | undefined): Copy {
  const { row_tags, results, ...rest } = delta;
  const rows: unknown[] = [];
  const tags: string[] = [];
  let sent = 0;
  for (const row of results) {
    if (Array.isArray(row)) {
      const [first, count] = row as [number, number];
      rows.push(...(copy?.rows.slice(first, first + count) ?? []));
      tags.push(...(copy?.tags.slice(first, first + count) ?? []));
    } else {
      rows.push(row);
      tags.push(row_tags.slice(sent * TAG, (sent + 1) * TAG));
      sent += 1;
    }
  }
  return { etag, rows, tags, body: JSON.stringify({ ...rest, results: rows }) };
}

function keep(url: string, copy: Copy): void {
  copies.delete(url);
  if (copy.body.length > LARGEST) return;
  copies.set(url, copy);
  const oldest = copies.keys().next().value;
  if (copies.size > MOST_COPIES && oldest !== undefined) copies.delete(oldest);
}

function asWhole({ body }: Copy): Response {
  return new Response(body, { headers: { "Content-Type": "application/json" } });
}
