/** An error of the API: a stable code, a sentence that says what to do, the numbers. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
  }

  /** Messages by field, from `details.fields` of a refused form. */
  get fields(): Record<string, string> {
    const fields = this.details["fields"];
    if (typeof fields !== "object" || fields === null) return {};
    return Object.fromEntries(
      Object.entries(fields).map(([name, reported]) => [name, sentence(reported)]),
    );
  }
}

function sentence(reported: unknown): string {
  if (Array.isArray(reported)) return reported.map(sentence).join(" ");
  if (typeof reported === "object" && reported !== null) {
    return Object.entries(reported)
      .map(([name, inner]) => `${name}: ${sentence(inner)}`)
      .join(" ");
  }
  return String(reported);
}

/** What went wrong, from whatever the server answered: proxies answer in HTML, for example. */
export function toApiError(status: number, body: unknown): ApiError {
  if (typeof body === "object" && body !== null && "code" in body && "message" in body) {
    const { code, message, details } = body as Record<string, unknown>;
    return new ApiError(
      status,
      String(code),
      String(message),
      (details ?? {}) as Record<string, unknown>,
    );
  }
  return new ApiError(status, "http_error", `The server answered with status ${status}.`);
}

export function isApiError(error: unknown, status?: number): error is ApiError {
  return error instanceof ApiError && (status === undefined || error.status === status);
}

/** What a proxy answers in place of a server that is down. */
export const GATEWAY_ERRORS: ReadonlySet<number> = new Set([502, 503, 504]);

/** Whether the request got no answer of the server. */
export function isConnectionError(error: unknown): boolean {
  if (error instanceof TypeError) return true;
  return isApiError(error) && error.code === "http_error" && GATEWAY_ERRORS.has(error.status);
}

/** What the server says of a field that it does not know. */
const UNKNOWN_FIELD = "Unknown field.";

/** One sentence for a person, for any error at all. */
export function errorMessage(error: unknown): string {
  if (error instanceof ApiError) {
    const fields = Object.values(error.fields);
    // As while servers are upgraded one after the other: the page is of the newer one.
    if (fields.includes(UNKNOWN_FIELD))
      return "The server is of another version than this page. Reload the page and try again.";
    return fields.length > 0 ? fields.join(" ") : error.message;
  }
  if (error instanceof TypeError) return "The server cannot be reached. Is the network up?";
  return error instanceof Error ? error.message : String(error);
}
