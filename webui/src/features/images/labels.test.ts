import { expect, test } from "vitest";
import type { Image } from "@/api/types";
import { contentsOf, driverProblem, imagesFor } from "./labels";

const image = (part: Partial<Image>) =>
  ({
    ...{ name: "torch", framework: "PyTorch 2.9", cuda_version: "12.8", min_driver: "570.26" },
    ...{ newest_driver: "", virtual_clusters: [] },
    ...part,
  }) as Image;

test("what is in an image, and why no node can run it", () => {
  expect(contentsOf(image({}))).toBe("PyTorch 2.9, CUDA 12.8, driver 570.26 or newer");
  expect(driverProblem(image({}))).toBe("");
  expect(driverProblem(image({ newest_driver: "550.1" }))).toBe(
    "No node has driver 570.26 or newer; the newest is 550.1.",
  );
});

test("images of other virtual clusters are not offered", () => {
  const all = [image({}), image({ virtual_clusters: ["a"] }), image({ virtual_clusters: ["b"] })];
  expect(imagesFor(all, "a")).toEqual(all.slice(0, 2));
});
