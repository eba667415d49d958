/** "0.04", "2.5", "1,200": three figures that matter at most. */
export function hours(value: number): string {
  if (value > 0 && value < 0.005) return "< 0.01";
  const digits = value < 1 ? 2 : value < 100 ? 1 : 0;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export function percent(value: number): string {
  return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 })} %`;
}
