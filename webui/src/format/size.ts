const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];

/** Bytes with powers of 1024 and at most one decimal: "512 B", "1.5 GB". */
export function bytes(value: number): string {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const rounded = value < 10 && unit > 0 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value);
  return `${rounded} ${UNITS[unit]}`;
}

export function megabytes(value: number): string {
  return bytes(value * 1024 * 1024);
}

export function count(value: number, noun: string, plural = `${noun}s`): string {
  return `${value.toLocaleString("en")} ${value === 1 ? noun : plural}`;
}
