import { queryOptions } from "@tanstack/react-query";
import { client, take } from "./client";
import { allPages } from "./pages";
import type { ImageBody, NewUser, User } from "./types";

export const images = queryOptions({
  queryKey: ["images"],
  queryFn: () => allPages((query) => take(client.GET("/api/v1/images", { params: { query } }))),
});

export const users = queryOptions({
  queryKey: ["users"],
  queryFn: () => allPages((query) => take(client.GET("/api/v1/users", { params: { query } }))),
});

export function createImage(body: ImageBody) {
  return take(client.POST("/api/v1/images", { body }));
}

export function updateImage(name: string, body: Partial<Omit<ImageBody, "name">>) {
  return take(client.PATCH("/api/v1/images/{name}", { params: { path: { name } }, body }));
}

export function deleteImage(name: string) {
  return take(client.DELETE("/api/v1/images/{name}", { params: { path: { name } } }));
}

export function createUser(body: NewUser) {
  return take(client.POST("/api/v1/users", { body }));
}

/** What of a user an administrator may change. */
export type UserChange = Partial<Pick<User, "email" | "is_admin" | "is_active">>;

export function deleteUser(username: string) {
  return take(client.DELETE("/api/v1/users/{username}", { params: { path: { username } } }));
}

/** The answer holds an address at which the user sets a new password, this once only. */
export function resetLink(username: string) {
  return take(
    client.POST("/api/v1/users/{username}/reset-link", { params: { path: { username } } }),
  );
}

export function updateUser(username: string, body: UserChange) {
  return take(client.PATCH("/api/v1/users/{username}", { params: { path: { username } }, body }));
}
