import { createTarPacker } from "modern-tar";

/** A file of a folder, by its path within it. */
export interface FileEntry {
  path: string;
  file: Blob;
  /** Milliseconds since the epoch. */
  modified: number;
}

/** Packs the files into a gzipped tar archive, reading one after another. Fails with the first file
 * that cannot be read. */
export async function tarGz(entries: readonly FileEntry[]): Promise<Blob> {
  const { readable, controller } = createTarPacker();
  const packed = new Response(readable.pipeThrough(new CompressionStream("gzip"))).blob();
  const [archive] = await Promise.all([packed, write(entries, controller)]);
  return archive;
}

type Controller = ReturnType<typeof createTarPacker>["controller"];

async function write(entries: readonly FileEntry[], controller: Controller): Promise<void> {
  for (const { path, file, modified } of entries) {
    const header = { name: path, size: file.size, mtime: new Date(modified), mode: 0o644 };
    await file.stream().pipeTo(controller.add(header));
  }
  controller.finalize();
}
