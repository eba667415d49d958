const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];

/** Bytes with powers of 1024 and at most one decimal: "512 B", "1.5 GB". */
export function formatBytes(value: number): string {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const rounded = value < 10 && unit > 0 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value);
  return `${rounded} ${UNITS[unit]}`;
}

/** "2.1 of 4.9 GB", "900 KB of 4.9 GB"; "2.1 GB" while the whole is not known. */
export function formatBytesOf(part: number, whole: number | null): string {
  if (!whole) return formatBytes(part);
  const [number = "", unit] = formatBytes(part).split(" ");
  const all = formatBytes(whole);
  return `${all.endsWith(` ${unit}`) ? number : `${number} ${unit}`} of ${all}`;
}

export function formatMegabytes(value: number): string {
  return formatBytes(value * 1024 * 1024);
}

export function pluralize(value: number, noun: string, plural = `${noun}s`): string {
  return `${value.toLocaleString("en")} ${value === 1 ? noun : plural}`;
}

/** "0.04", "2.5", "1,200": three figures that matter at most. */
export function formatHours(value: number): string {
  if (value > 0 && value < 0.005) return "< 0.01";
  const digits = value < 1 ? 2 : value < 100 ? 1 : 0;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export function formatPercent(value: number): string {
  return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 })}%`;
}
