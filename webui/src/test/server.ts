import { vi } from "vitest";

type Answer = unknown | ((request: Request) => unknown);

/** Lets the API answer from a table of "METHOD /path" (below /api/v1); anything else is a 404.
 * Returns the requests that were made. */
export function serve(answers: Record<string, Answer>): Request[] {
  const requests: Request[] = [];
  vi.stubGlobal("fetch", async (input: Request | string) => {
    const request = input instanceof Request ? input : new Request(new URL(input, location.origin));
    requests.push(request.clone());
    const path = new URL(request.url).pathname.replace("/api/v1", "");
    const answer = answers[`${request.method} ${path}`];
    const body: unknown = typeof answer === "function" ? await answer(request) : answer;
    if (body instanceof Response) return body;
    return body === undefined ? refusal(404, "not_found", "There is no such thing.") : json(body);
  });
  return requests;
}

export function refusal(status: number, code: string, message: string, details = {}): Response {
  return json({ code, message, details }, status);
}

function json(body: unknown, status = 200): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "Content-Type": "application/json" },
  });
}
