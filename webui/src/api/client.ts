import createClient, { type Middleware } from "openapi-fetch";
import { conditionalFetch } from "./conditional";
import { toApiError } from "./errors";
import type { paths } from "./schema";

const SAFE = new Set(["GET", "HEAD", "OPTIONS"]);

function csrfToken(): string | undefined {
  return /(?:^|;\s*)skep_csrf=([^;]+)/.exec(document.cookie)?.[1];
}

/** Django checks this header on every change; the cookie is set by a first GET when missing. */
const csrf: Middleware = {
  async onRequest({ request }) {
    if (SAFE.has(request.method)) return undefined;
    if (!csrfToken()) await fetch("/api/v1/auth/csrf");
    request.headers.set("X-CSRFToken", csrfToken() ?? "");
    return request;
  },
};

/** Refusals become exceptions, so that every caller sees data or an ApiError, never neither. */
const throwApiErrors: Middleware = {
  async onResponse({ response }) {
    if (response.ok) return undefined;
    const body: unknown = await response.json().catch(() => null);
    throw toApiError(response.status, body);
  },
};

export const client = createClient<paths, "application/json">({
  baseUrl: location.origin,
  fetch: conditionalFetch,
});
client.use(csrf, throwApiErrors);

/** The body of an answer that was not refused. */
export async function unwrap<T>(answer: Promise<{ data?: T }>): Promise<T> {
  return (await answer).data as T;
}
