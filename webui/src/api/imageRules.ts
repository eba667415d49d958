import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";

/** The patterns of images that jobs of a virtual cluster may use; none: every image. */
export function imageRules(vc: string) {
  return queryOptions({
    queryKey: ["image-rules", vc],
    queryFn: () =>
      unwrap(
        client.GET("/api/v1/virtual-clusters/{name}/image-rules", {
          params: { path: { name: vc } },
        }),
      ),
  });
}

export function setImageRules(vc: string, patterns: string[]) {
  return unwrap(
    client.PUT("/api/v1/virtual-clusters/{name}/image-rules", {
      params: { path: { name: vc } },
      body: { patterns },
    }),
  );
}

/** Whether jobs of a virtual cluster may use an image. */
export function checkImage(vc: string, image: string) {
  return unwrap(
    client.GET("/api/v1/virtual-clusters/{name}/image-rules/check", {
      params: { path: { name: vc }, query: { image } },
    }),
  );
}
