import { useRef } from "react";

/** Makes a token that has not been used before. (`crypto.randomUUID` is absent over plain HTTP.) */
export function randomToken(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Idempotency keys of requests: one that is sent again after a lost answer has the same key, and
 *  one that follows an answer has another. */
export class RepeatTokens {
  private readonly tokens = new Map<string, string>();

  /** Send a request with its token; `what` says which requests are the same one. */
  async send<T>(what: string, act: (token: string) => Promise<T>): Promise<T> {
    const token = this.tokens.get(what) ?? randomToken();
    this.tokens.set(what, token);
    const answer = await act(token);
    this.tokens.delete(what);
    return answer;
  }
}

export function useRepeatTokens(): RepeatTokens {
  return (useRef<RepeatTokens>(null).current ??= new RepeatTokens());
}
