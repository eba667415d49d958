import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { isApiError } from "./errors";
import type { KeyAnswer } from "./securityKeys";
import type { Me, TokenScope } from "./types";

export const info = queryOptions({
  queryKey: ["info"],
  queryFn: () => unwrap(client.GET("/api/v1/info")),
  staleTime: Infinity,
});

/** Whether a user was logged in on this page whose session the server has ended. */
export const sessionEnded = queryOptions({
  queryKey: ["session-ended"],
  queryFn: () => false,
  initialData: false,
  staleTime: Infinity,
});

/** The user who is logged in, or null. When a session ends its user stays known, so that the page
 * stays as it is while the login is asked for. */
export const me = queryOptions({
  queryKey: ["me"],
  queryFn: async ({ client: queries, signal }): Promise<Me | null> => {
    try {
      return await unwrap(client.GET("/api/v1/me", { signal }));
    } catch (error) {
      if (!isApiError(error, 401)) throw error;
      const known = queries.getQueryData<Me | null>(["me"]) ?? null;
      if (known) queries.setQueryData(sessionEnded.queryKey, true);
      return known;
    }
  },
  staleTime: 60_000,
});

export const tokens = queryOptions({
  queryKey: ["tokens"],
  queryFn: () => unwrap(client.GET("/api/v1/auth/tokens")),
});

/** `code`: of an authenticator app, and `key`: what a security key signed; the server asks for one
 * of them by the error `mfa_required`. */
export function login(username: string, password: string, code = "", key?: KeyAnswer) {
  const body = { username, password, ...(code ? { code } : {}), ...(key ? { key } : {}) };
  return unwrap(client.POST("/api/v1/auth/login", { body }));
}

export const mfa = queryOptions({
  queryKey: ["mfa"],
  queryFn: () => unwrap(client.GET("/api/v1/me/mfa")),
});

/** Makes a key for an authenticator app, which does nothing until it is confirmed. */
export function startMfa(password: string) {
  return unwrap(client.POST("/api/v1/me/mfa/start", { body: { password } }));
}

/** The answer holds the recovery codes, this once only. */
export function confirmMfa(code: string) {
  return unwrap(client.POST("/api/v1/me/mfa/confirm", { body: { code } }));
}

export function renewRecoveryCodes(code: string) {
  return unwrap(client.POST("/api/v1/me/mfa/recovery-codes", { body: { code } }));
}

export function disableMfa(password: string) {
  return unwrap(client.POST("/api/v1/me/mfa/disable", { body: { password } }));
}

/** Gives the password again, for what needs to know that the user is really there. */
export function confirmMe(password: string) {
  return unwrap(client.POST("/api/v1/me/confirm", { body: { password } }));
}

export function logout() {
  return unwrap(client.POST("/api/v1/auth/logout"));
}

/** The answer holds the token itself, this once only. */
export function createToken(name: string, expires_in_s: number, scope: TokenScope) {
  return unwrap(client.POST("/api/v1/auth/tokens", { body: { name, expires_in_s, scope } }));
}

export function changePassword(current: string, next: string, keep_tokens: boolean) {
  const body = { current, new: next, keep_tokens };
  return unwrap(client.POST("/api/v1/me/password", { body }));
}

/** By a link that an administrator made or an e-mail brought; it works once. */
export function resetPassword(username: string, token: string, next: string) {
  return unwrap(
    client.POST("/api/v1/auth/password-reset", { body: { username, token, new: next } }),
  );
}

/** Whether the own account is linked to one of the identity provider. */
export const ownSso = queryOptions({
  queryKey: ["own-sso"],
  queryFn: () => unwrap(client.GET("/api/v1/me/sso")),
});

/** Begins to link the own account: the browser goes to the address in the answer. */
export function linkSso() {
  return unwrap(client.POST("/api/v1/me/sso"));
}

export function unlinkSso() {
  return unwrap(client.DELETE("/api/v1/me/sso"));
}

export const ownSessions = queryOptions({
  queryKey: ["own-sessions"],
  queryFn: () => unwrap(client.GET("/api/v1/me/sessions")),
});

export function endSession(id: string) {
  return unwrap(client.DELETE("/api/v1/me/sessions/{id}", { params: { path: { id } } }));
}

export function endOtherSessions() {
  return unwrap(client.DELETE("/api/v1/me/sessions"));
}

/** Who asks to be logged in by this code: a program, such as the command line. */
export const deviceLogin = (code: string) =>
  queryOptions({
    queryKey: ["device-login", code],
    queryFn: () => unwrap(client.GET("/api/v1/me/device", { params: { query: { code } } })),
    retry: false,
    staleTime: Infinity,
  });

/** Lets that program act as the user, with a token of its own, or does not. */
export function decideDeviceLogin(
  code: string,
  allow: boolean,
  scope: TokenScope,
  expires_in_s: number,
) {
  const body = { code, allow, scope, expires_in_s };
  return unwrap(client.POST("/api/v1/me/device", { body }));
}

/** Asks for an e-mail with such a link; the answer does not tell whether there is an account. */
export function recoverAccount(user: string) {
  return unwrap(client.POST("/api/v1/auth/recovery", { body: { user } }));
}

/** Sends a link to an address, which becomes the own one when the link is opened. */
export function changeEmail(email: string) {
  return unwrap(client.POST("/api/v1/me/email", { body: { email } }));
}

export function confirmEmail(token: string) {
  return unwrap(client.POST("/api/v1/me/email/confirm", { body: { token } }));
}

export function revokeToken(id: string) {
  return unwrap(client.DELETE("/api/v1/auth/tokens/{id}", { params: { path: { id } } }));
}
