import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { fetchAllPages } from "./pagination";
import type { components } from "./schema";

export type ImageSave = components["schemas"]["ImageSave"];

/** The saves of a job's containers as images, the newest first. */
export const imageSaves = (job: string) =>
  queryOptions({
    queryKey: ["job", job, "image-saves"],
    queryFn: () =>
      fetchAllPages((query) =>
        unwrap(
          client.GET("/api/v1/jobs/{id}/image-saves", { params: { path: { id: job }, query } }),
        ),
      ),
  });

export function saveImage(job: string, rank: number, reference: string) {
  return unwrap(
    client.POST("/api/v1/jobs/{id}/image-saves", {
      params: { path: { id: job } },
      body: { rank, reference },
    }),
  );
}

export function cancelImageSave(id: string) {
  return unwrap(client.DELETE("/api/v1/image-saves/{id}", { params: { path: { id } } }));
}

/** The newest images that the user saved from containers. */
export const savedImages = queryOptions({
  queryKey: ["saved-images"],
  queryFn: async () =>
    (await unwrap(client.GET("/api/v1/me/saved-images", { params: { query: { limit: 50 } } })))
      .results,
});

export function isCancelled(save: ImageSave): boolean {
  return save.code === "save_cancelled";
}

export function isOpen(save: ImageSave): boolean {
  return save.state !== "DONE" && save.state !== "FAILED";
}
