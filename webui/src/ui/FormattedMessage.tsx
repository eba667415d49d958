const CODE_SPAN = /`([^`]+)`/;

/** A sentence of the server, in which what is to be typed stands between backticks. */
export function FormattedMessage({ text }: { text: string }) {
  return text
    .split(CODE_SPAN)
    .map((part, number) => (number % 2 === 1 ? <code key={number}>{part}</code> : part));
}
