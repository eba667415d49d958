const TYPED = /`([^`]+)`/;

/** A sentence of the server, in which what is to be typed stands between backticks. */
export function Prose({ text }: { text: string }) {
  return text
    .split(TYPED)
    .map((part, number) => (number % 2 === 1 ? <code key={number}>{part}</code> : part));
}
