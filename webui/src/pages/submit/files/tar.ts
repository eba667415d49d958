/** A file of a folder, by its path within it. */
export interface Member {
  path: string;
  file: Blob;
  /** Milliseconds since the epoch. */
  modified: number;
}

const BLOCK = 512;
const NAME = 100;
const encoder = new TextEncoder();

/** The members as a gzipped tar archive (POSIX ustar; pax records where a name is too long). */
export function tarGz(members: readonly Member[]): Promise<Blob> {
  const packed = streamOf(blocks(members)).pipeThrough(new CompressionStream("gzip"));
  return new Response(packed).blob();
}

function streamOf(source: AsyncGenerator<Uint8Array<ArrayBuffer>>) {
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const { done, value } = await source.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}

async function* blocks(members: readonly Member[]): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  for (const { path, file, modified } of members) {
    const name = encoder.encode(path);
    if (name.length > NAME) yield* longName(path, modified);
    yield header(name.subarray(0, NAME), file.size, modified, "0");
    yield* bytesOf(file);
    yield padding(file.size);
  }
  yield new Uint8Array(2 * BLOCK);
}

/** A pax record before the member tells the path that does not fit its header. */
function* longName(path: string, modified: number): Generator<Uint8Array<ArrayBuffer>> {
  const record = paxRecord("path", path);
  yield header(encoder.encode("pax"), record.length, modified, "x");
  yield record;
  yield padding(record.length);
}

/** "<length of all this> path=…\n": the length counts its own digits. */
export function paxRecord(key: string, value: string): Uint8Array<ArrayBuffer> {
  const rest = encoder.encode(` ${key}=${value}\n`).length;
  let length = rest + 1;
  while (String(length).length + rest > length) length += 1;
  return encoder.encode(`${length} ${key}=${value}\n`);
}

async function* bytesOf(file: Blob): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const reader = file.stream().getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
}

function padding(size: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);
}

function header(
  name: Uint8Array,
  size: number,
  modified: number,
  kind: string,
): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(BLOCK);
  const put = (text: string, at: number) => block.set(encoder.encode(text), at);
  block.set(name, 0);
  put("0000644\0", 100);
  put("0000000\0", 108);
  put("0000000\0", 116);
  put(octal(size), 124);
  put(octal(Math.max(0, modified / 1000)), 136);
  put(" ".repeat(8), 148);
  put(kind, 156);
  put("ustar\u000000", 257);
  const sum = block.reduce((all, byte) => all + byte, 0);
  put(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

function octal(value: number): string {
  return `${Math.floor(value).toString(8).padStart(11, "0")}\0`;
}
