import { queryOptions } from "@tanstack/react-query";
import { client, take } from "./client";
import { isApiError } from "./errors";
import type { Me } from "./types";

export const info = queryOptions({
  queryKey: ["info"],
  queryFn: () => take(client.GET("/api/v1/info")),
  staleTime: Infinity,
});

/** Who is logged in; null is nobody. */
export const me = queryOptions({
  queryKey: ["me"],
  queryFn: async (): Promise<Me | null> => {
    try {
      return await take(client.GET("/api/v1/me"));
    } catch (error) {
      if (isApiError(error, 401)) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

export const tokens = queryOptions({
  queryKey: ["tokens"],
  queryFn: () => take(client.GET("/api/v1/auth/tokens")),
});

export function login(username: string, password: string) {
  return take(client.POST("/api/v1/auth/login", { body: { username, password } }));
}

export function logout() {
  return take(client.POST("/api/v1/auth/logout"));
}

/** The answer holds the token itself, this once only. */
export function createToken(name: string, expires_in_s: number) {
  return take(client.POST("/api/v1/auth/tokens", { body: { name, expires_in_s } }));
}

export function changePassword(current: string, next: string) {
  return take(client.POST("/api/v1/me/password", { body: { current, new: next } }));
}

export function revokeToken(id: string) {
  return take(client.DELETE("/api/v1/auth/tokens/{id}", { params: { path: { id } } }));
}
