import type { Image } from "@/api/types";

/** "PyTorch 2.9, CUDA 12.8, driver 570 or newer". */
export function contentsOf({ framework, cuda_version, min_driver }: Image): string {
  const parts = [
    framework,
    cuda_version && `CUDA ${cuda_version}`,
    min_driver && `driver ${min_driver} or newer`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** Why no node can run it; empty: some may. */
export function driverProblem({ min_driver, newest_driver }: Image): string {
  if (!newest_driver) return "";
  return `No node has driver ${min_driver} or newer; the newest is ${newest_driver}.`;
}

/** The images of the catalogue that jobs of a virtual cluster may use. */
export function imagesFor(catalogue: Image[], vc: string): Image[] {
  return catalogue.filter(
    ({ virtual_clusters }) => virtual_clusters.length === 0 || virtual_clusters.includes(vc),
  );
}
