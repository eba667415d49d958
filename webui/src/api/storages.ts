import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { fetchAllPages } from "./pagination";
import type { StorageBody } from "./types";

export const storages = queryOptions({
  queryKey: ["storages"],
  queryFn: () =>
    fetchAllPages((query) => unwrap(client.GET("/api/v1/storages", { params: { query } }))),
});

export const storageFiles = (name: string, path: string, search = "") =>
  infiniteQueryOptions({
    queryKey: ["storage-files", name, path, search],
    queryFn: ({ pageParam }) =>
      unwrap(
        client.GET("/api/v1/storages/{name}/files", {
          params: { path: { name }, query: { path, after: pageParam, ...(search && { search }) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    placeholderData: (before, query) =>
      query?.queryKey[1] === name && query.queryKey[2] === path ? before : undefined,
  });

/** Where the browser itself downloads a file. */
export const downloadUrl = (name: string, path: string) =>
  `/api/v1/storages/${name}/content?path=${encodeURIComponent(path)}`;

/** Removes a file or folder. The server ends such a request after a while, and is asked again. */
export async function removeFile(name: string, path: string) {
  for (;;) {
    const query = { path, recursive: true };
    const answer = await unwrap(
      client.DELETE("/api/v1/storages/{name}/files", { params: { path: { name }, query } }),
    );
    if (answer.complete) return;
  }
}

const PIECE_BYTES = 2 * 1024 * 1024;

/** Sends a file piece by piece, from where an earlier upload of the same version of it was cut.
 *  `onProgress` is given the bytes that have arrived. */
export async function uploadFile(
  name: string,
  path: string,
  file: File,
  onProgress: (bytes: number) => void,
) {
  const source = `${file.size}-${file.lastModified}`;
  const params = { path: { name }, query: { path, source } };
  const known = await unwrap(client.GET("/api/v1/storages/{name}/upload", { params }));
  // A server of the version before does not say of which version of the file the bytes are.
  let offset = known.source === source && known.offset <= file.size ? known.offset : 0;
  for (;;) {
    const piece = await file.slice(offset, offset + PIECE_BYTES).arrayBuffer();
    const last = offset + piece.byteLength >= file.size;
    const answer = await unwrap(
      client.PUT("/api/v1/storages/{name}/content", {
        params: { path: { name }, query: { path, offset, last, source } },
        headers: { "Content-Type": "application/octet-stream" },
        body: piece as unknown as string,
        bodySerializer: (body) => body as unknown as BodyInit,
      }),
    );
    offset = answer.offset;
    onProgress(offset);
    if (last) return;
  }
}

export function createStorage(body: StorageBody) {
  return unwrap(client.POST("/api/v1/storages", { body }));
}

export function updateStorage(name: string, body: Partial<Omit<StorageBody, "name" | "type">>) {
  return unwrap(client.PATCH("/api/v1/storages/{name}", { params: { path: { name } }, body }));
}

export function deleteStorage(name: string) {
  return unwrap(client.DELETE("/api/v1/storages/{name}", { params: { path: { name } } }));
}

export function grantStorage(name: string, virtual_cluster: string, read_only: boolean) {
  const path = { name, virtual_cluster };
  return unwrap(
    client.PUT("/api/v1/storages/{name}/grants/{virtual_cluster}", {
      params: { path },
      body: { read_only },
    }),
  );
}

export function revokeStorage(name: string, virtual_cluster: string) {
  const path = { name, virtual_cluster };
  return unwrap(
    client.DELETE("/api/v1/storages/{name}/grants/{virtual_cluster}", { params: { path } }),
  );
}

export function grantStorageToGroup(name: string, group: string, read_only: boolean) {
  return unwrap(
    client.PUT("/api/v1/storages/{name}/groups/{group}", {
      params: { path: { name, group } },
      body: { read_only },
    }),
  );
}

export function revokeStorageFromGroup(name: string, group: string) {
  return unwrap(
    client.DELETE("/api/v1/storages/{name}/groups/{group}", { params: { path: { name, group } } }),
  );
}
