import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { fetchAllPages } from "./pagination";
import type { ImageBody, NewUser, PrefetchBody, User } from "./types";

export const images = queryOptions({
  queryKey: ["images"],
  queryFn: () =>
    fetchAllPages((query) => unwrap(client.GET("/api/v1/images", { params: { query } }))),
});

export const users = queryOptions({
  queryKey: ["users"],
  queryFn: () =>
    fetchAllPages((query) => unwrap(client.GET("/api/v1/users", { params: { query } }))),
});

export function createImage(body: ImageBody) {
  return unwrap(client.POST("/api/v1/images", { body }));
}

export function updateImage(name: string, body: Partial<Omit<ImageBody, "name" | "managed_by">>) {
  return unwrap(client.PATCH("/api/v1/images/{name}", { params: { path: { name } }, body }));
}

/** Ask its registry for digest and size of an image now. */
export function inspectImage(name: string) {
  return unwrap(client.POST("/api/v1/images/{name}/inspect", { params: { path: { name } } }));
}

export function deleteImage(name: string) {
  return unwrap(client.DELETE("/api/v1/images/{name}", { params: { path: { name } } }));
}

export function createUser(body: NewUser) {
  return unwrap(client.POST("/api/v1/users", { body }));
}

/** What of a user an administrator may change. */
export type UserChange = Partial<Pick<User, "email" | "is_admin" | "is_active">>;

export function deleteUser(username: string) {
  return unwrap(client.DELETE("/api/v1/users/{username}", { params: { path: { username } } }));
}

/** The answer holds an address at which the user sets a new password, this once only. */
export function resetLink(username: string) {
  return unwrap(
    client.POST("/api/v1/users/{username}/reset-link", { params: { path: { username } } }),
  );
}

/** For a user who lost the authenticator app and the recovery codes. */
export function resetMfa(username: string) {
  return unwrap(client.DELETE("/api/v1/users/{username}/mfa", { params: { path: { username } } }));
}

export function updateUser(username: string, body: UserChange) {
  return unwrap(client.PATCH("/api/v1/users/{username}", { params: { path: { username } }, body }));
}

/** The images on a node: all for admins, else those of the catalogue. */
export const nodeImages = (name: string) =>
  queryOptions({
    queryKey: ["node-images", name],
    queryFn: () =>
      fetchAllPages((query) =>
        unwrap(client.GET("/api/v1/nodes/{name}/images", { params: { path: { name }, query } })),
      ),
  });

/** The nodes that hold an image. */
export const imageNodes = (name: string) =>
  queryOptions({
    queryKey: ["images", name, "nodes"],
    queryFn: () =>
      fetchAllPages((query) =>
        unwrap(client.GET("/api/v1/images/{name}/nodes", { params: { path: { name }, query } })),
      ),
  });

/** Images that are pulled to nodes in advance, the newest first. */
export const prefetches = queryOptions({
  queryKey: ["prefetches"],
  queryFn: async () =>
    (await unwrap(client.GET("/api/v1/prefetches", { params: { query: { limit: 50 } } }))).results,
});

export const prefetchNodes = (id: string) =>
  queryOptions({
    queryKey: ["prefetches", id],
    queryFn: () =>
      fetchAllPages((query) =>
        unwrap(client.GET("/api/v1/prefetches/{id}/nodes", { params: { path: { id }, query } })),
      ),
  });

export function prefetchImage(name: string, body: PrefetchBody) {
  return unwrap(
    client.POST("/api/v1/images/{name}/prefetches", { params: { path: { name } }, body }),
  );
}

export function cancelPrefetch(id: string) {
  return unwrap(client.DELETE("/api/v1/prefetches/{id}", { params: { path: { id } } }));
}
