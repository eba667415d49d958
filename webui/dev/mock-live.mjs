// The least of a WebSocket server: text frames below 64 kB, which is all that doorbells need.
import { createHash } from "node:crypto";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

export function acceptLive(request, socket, onTick) {
  const key = createHash("sha1").update(request.headers["sec-websocket-key"] + GUID);
  socket.write(
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
      `Sec-WebSocket-Accept: ${key.digest("base64")}\r\n\r\n`,
  );
  const topics = new Map();
  socket.on("data", (frame) => {
    const message = decode(frame);
    if (message?.subscribe) topics.set(message.subscribe + (message.id ?? ""), message);
    if (message?.unsubscribe) topics.delete(message.unsubscribe + (message.id ?? ""));
  });
  const stop = onTick(() => {
    for (const { subscribe, id = "" } of topics.values())
      socket.write(encode({ type: "changed", topic: subscribe, id }));
  });
  socket.on("close", stop);
  socket.on("error", stop);
}

function decode(frame) {
  if ((frame[0] & 0x0f) !== 1) return null;
  const long = (frame[1] & 0x7f) === 126;
  const size = long ? frame.readUInt16BE(2) : frame[1] & 0x7f;
  const start = long ? 4 : 2;
  const mask = frame.subarray(start, start + 4);
  const data = frame.subarray(start + 4, start + 4 + size).map((byte, i) => byte ^ mask[i % 4]);
  return JSON.parse(Buffer.from(data).toString());
}

function encode(message) {
  const body = Buffer.from(JSON.stringify(message));
  return Buffer.concat([Buffer.from([0x81, body.length]), body]);
}
