import { expect, test } from "vitest";
import { tarGz } from "./tar";

const long = `src/${"deep/".repeat(40)}größe.py`;

/** Members of an archive as POSIX has them read: [path, text], checksums looked at. */
async function unpack(archive: Blob): Promise<[string, string][]> {
  const stream = archive.stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const text = (from: number, to: number) => new TextDecoder().decode(bytes.subarray(from, to));
  const members: [string, string][] = [];
  let named = "";
  for (let at = 0; bytes[at] !== 0;) {
    const size = parseInt(text(at + 124, at + 135), 8);
    const content = text(at + 512, at + 512 + size);
    const head = bytes.slice(at, at + 512).fill(32, 148, 156);
    expect(parseInt(text(at + 148, at + 154), 8)).toBe(head.reduce((sum, byte) => sum + byte, 0));
    if (text(at + 156, at + 157) === "x") {
      named = /^\d+ path=(.*)$/m.exec(content)?.[1] ?? "";
    } else {
      const [name = "", prefix = ""] = [text(at, at + 100), text(at + 345, at + 500)].map((part) =>
        part.replace(/\0.*$/s, ""),
      );
      members.push([named || (prefix ? `${prefix}/${name}` : name), content]);
      named = "";
    }
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return members;
}

test("what was packed can be unpacked, long names and all", async () => {
  const files: [string, string][] = [
    ["train.py", "print(1)\n"],
    ["empty", ""],
    [long, "x".repeat(1500)],
    [`${"long".repeat(40)}.txt`, "no folder to split the name at"],
    ["whole-block", "y".repeat(512)],
  ];
  const members = files.map(([path, text]) => ({ path, file: new Blob([text]), modified: 1e12 }));
  expect(await unpack(await tarGz(members))).toEqual(files);
});

test("a file that cannot be read fails the archive", async () => {
  const gone = new Blob(["x"]);
  gone.stream = () => new ReadableStream({ start: (out) => out.error(new Error("gone")) });
  await expect(tarGz([{ path: "gone", file: gone, modified: 1e12 }])).rejects.toThrow("gone");
});
