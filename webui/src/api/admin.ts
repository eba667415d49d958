import { queryOptions } from "@tanstack/react-query";
import { client, take } from "./client";
import { allPages } from "./pages";
import type { Image, Page, User } from "./types";

export const images = queryOptions({
  queryKey: ["images"],
  queryFn: () =>
    allPages((query) => take<Page<Image>>(client.GET("/api/v1/images", { params: { query } }))),
});

export const users = queryOptions({
  queryKey: ["users"],
  queryFn: () =>
    allPages((query) => take<Page<User>>(client.GET("/api/v1/users", { params: { query } }))),
});

export function createImage(body: Image) {
  return take<Image>(client.POST("/api/v1/images", { body }));
}

export function updateImage(name: string, body: Partial<Image>) {
  return take<Image>(client.PATCH("/api/v1/images/{name}", { params: { path: { name } }, body }));
}

export function deleteImage(name: string) {
  return take(client.DELETE("/api/v1/images/{name}", { params: { path: { name } } }));
}

export interface NewUser {
  username: string;
  email: string;
  password: string;
  is_admin: boolean;
}

export function createUser(body: NewUser) {
  return take<User>(client.POST("/api/v1/users", { body }));
}

export function updateUser(username: string, body: Partial<NewUser & { is_active: boolean }>) {
  return take<User>(
    client.PATCH("/api/v1/users/{username}", { params: { path: { username } }, body }),
  );
}
