/** The job file of a copy: names are unique per owner, so the copy counts on from its original. */
export function withNextName(text: string): string {
  return text.replace(
    /^(name:\s*)(["']?)([\w-]+)\2/m,
    (_, head: string, quote: string, name: string) => {
      return `${head}${quote}${nextName(name)}${quote}`;
    },
  );
}

export function nextName(name: string): string {
  const counted = /^(.*?)-(\d{1,6})$/.exec(name);
  return counted ? `${counted[1]}-${Number(counted[2]) + 1}` : `${name}-2`;
}
