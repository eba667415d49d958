import type { FileEntry } from "./tar";

/** Not part of what a job needs, and often larger than all the rest. */
const EXCLUDED = new Set([".git", "__pycache__", "node_modules", ".venv"]);

export function isExcluded(path: string): boolean {
  return path.split("/").some((part) => EXCLUDED.has(part));
}

/** Files of a folder that was chosen: their paths begin with the folder's own name. */
export function chosenFiles(files: FileList): FileEntry[] {
  return [...files]
    .map((file) => fileEntry(file, file.webkitRelativePath.split("/").slice(1).join("/")))
    .filter(({ path }) => !isExcluded(path));
}

/** All files below what was dropped. One folder alone is taken for its contents. */
export async function droppedFiles(items: DataTransferItemList): Promise<FileEntry[]> {
  // Asked for at once: the list is empty as soon as the event is over.
  const entries = [...items]
    .map((item) => item.webkitGetAsEntry())
    .filter((entry) => entry !== null);
  const [only] = entries;
  const top = entries.length === 1 && only && isFolder(only) ? await inside(only) : entries;
  return (await Promise.all(top.map((entry) => walk(entry, "")))).flat();
}

async function walk(entry: FileSystemEntry, above: string): Promise<FileEntry[]> {
  const path = above + entry.name;
  if (isExcluded(path)) return [];
  if (!isFolder(entry)) return [fileEntry(await fileOf(entry as FileSystemFileEntry), path)];
  const below = await inside(entry);
  return (await Promise.all(below.map((each) => walk(each, `${path}/`)))).flat();
}

function fileEntry(file: File, path: string): FileEntry {
  return { path, file, modified: file.lastModified };
}

function isFolder(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory;
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}

/** The browser gives a folder's entries in portions; the last one is empty. */
async function inside(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0) return all;
    all.push(...some);
  }
}
