import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { components } from "./schema";

export type SshKey = components["schemas"]["SshKey"];

/** The public ssh keys of the user, by name. */
export const sshKeys = queryOptions({
  queryKey: ["ssh-keys"],
  queryFn: async () => (await unwrap(client.GET("/api/v1/me/ssh-keys"))).keys,
});

export function addSshKey(name: string, public_key: string) {
  return unwrap(client.POST("/api/v1/me/ssh-keys", { body: { name, public_key } }));
}

export function removeSshKey(id: string) {
  return unwrap(client.DELETE("/api/v1/me/ssh-keys/{id}", { params: { path: { id } } }));
}
