import { client, take } from "./client";

/** Stores a gzipped tar archive; the same one twice is one. */
export function upload(archive: Blob) {
  return take(
    client.POST("/api/v1/files", {
      headers: { "Content-Type": "application/gzip" },
      body: archive as unknown as string,
      bodySerializer: (body) => body as unknown as BodyInit,
    }),
  );
}
