const PATHS = {
  home: "M2.5 7.5 8 2.8l5.5 4.7M4 6.5v7h3V9.8h2v3.7h3v-7",
  jobs: "M3 4.5h10M3 8h10M3 11.5h6",
  cluster:
    "M8 1.2 10.7 2.8v3.1L8 7.4 5.3 5.9v-3.1ZM5 8.2 7.7 9.7v3.1L5 14.3 2.3 12.8v-3.1ZM11 8.2 13.7 9.7v3.1L11 14.3 8.3 12.8v-3.1Z",
  hives: "M8 1.8 13.4 4.9v6.2L8 14.2 2.6 11.1V4.9ZM8 1.8v12.4M8 8l5.4 3.1",
  image: "M8 1.8 13.5 4.6v6.8L8 14.2 2.5 11.4V4.6ZM2.7 4.8 8 7.5l5.3-2.7M8 7.5v6.5",
  users:
    "M6 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM1.8 13.5c.3-2.4 2-3.8 4.2-3.8s3.9 1.4 4.2 3.8M10.5 3.3a2.4 2.4 0 0 1 0 4.5M12.2 9.9c1.2.6 1.9 1.9 2.1 3.6",
  group:
    "M8 8a2.2 2.2 0 1 0 0-4.4A2.2 2.2 0 0 0 8 8ZM4.2 13.6c.2-2.4 1.7-3.7 3.8-3.7s3.6 1.3 3.8 3.7M3.4 8.2a1.7 1.7 0 1 1 .7-3.2M12.6 8.2a1.7 1.7 0 1 0-.7-3.2M1.2 12.4c.1-1.2.6-2 1.5-2.5M14.8 12.4c-.1-1.2-.6-2-1.5-2.5",
  user: "M8 8a2.8 2.8 0 1 0 0-5.6A2.8 2.8 0 0 0 8 8ZM2.8 14c.4-2.7 2.5-4.3 5.2-4.3s4.8 1.6 5.2 4.3",
  usage: "M2.5 13.5h11M4 11V8M8 11V3.5M12 11V6",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  branch:
    "M2 8h2.5C9 8 7.5 3.5 12 3.5h2M4.5 8C9 8 7.5 12.5 12 12.5h2M12 1.5l2 2-2 2M12 10.5l2 2-2 2",
  undo: "M5.5 3 2.5 6l3 3M2.5 6h7a4 4 0 0 1 0 8H6",
  upload: "M8 10.5V3M4.8 6 8 2.8 11.2 6M2.5 13.5h11",
  pin: "M5.5 2h5M6.5 2v4.5L4 9.5h8L9.5 6.5V2M8 9.5V14",
  bolt: "M8.8 1.8 3.5 9h4l-.7 5.2L12.5 7h-4Z",
  cells:
    "M5 1.8 7.8 3.4v3.2L5 8.2 2.2 6.6V3.4ZM11 1.8l2.8 1.6v3.2L11 8.2 8.2 6.6V3.4ZM8 7.8l2.8 1.6v3.2L8 14.2l-2.8-1.6V9.4Z",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.6 10.6 14 14",
  searchAll:
    "M2.5 3h11M2.5 6.5h4M2.5 10h4M10.2 12a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM12.4 11.2 14.5 13.5",
  stop: "M4 4h8v8H4Z",
  tag: "M2.5 2.5h5.2l6 6-5.2 5.2-6-6ZM5.2 5.2h.01",
  terminal: "M2 3h12v10H2ZM4.5 6l2 2-2 2M8 10.2h3.5",
  folder: "M2 4h4l1.5 1.5H14V13H2Z",
  clone: "M6 6h7.5v7.5H6ZM3.5 10H2.5V2.5H10v1",
  download: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M2.5 13.5h11",
  copy: "M5.5 5.5h8v8h-8ZM3.5 10.5h-1v-8h8v1",
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  warning: "M8 2.2 14.5 13.5h-13ZM8 6.5v3.2M8 11.6v.2",
  down: "M4 6l4 4 4-4",
  up: "M4 10l4-4 4 4",
  left: "M10 4 6 8l4 4",
  right: "M6 4l4 4-4 4",
  top: "M3 3h10M8 13V6M4.8 9 8 5.8 11.2 9",
  bottom: "M3 13h10M8 3v7M4.8 7 8 10.2 11.2 7",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1",
  moon: "M13.5 9.5A6 6 0 1 1 6.5 2.5a4.8 4.8 0 0 0 7 7Z",
  screen: "M2 3h12v8H2ZM6 13.5h4",
  logout: "M6.5 2.5h-4v11h4M10.5 5l3 3-3 3M13.5 8h-7",
  bookmark: "M4 2.5h8v11.2L8 10.6l-4 3.1Z",
  star: "M8 1.8 9.9 5.9l4.4.5-3.3 3 .9 4.4L8 11.6l-3.9 2.2.9-4.4-3.3-3 4.4-.5Z",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  edit: "M3 13h2.5L13 5.5 10.5 3 3 10.5ZM9 4.5 11.5 7",
  trash: "M2.5 4h11M6 4V2.5h4V4M4 4l.7 9.5h6.6L12 4",
  wrap: "M2.5 4h11M2.5 8h9a2 2 0 0 1 0 4.2H8M9.5 10.5 7.8 12.2l1.7 1.7M2.5 12h2.5",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 4.5V8l2.5 1.5",
  key: "M10.5 9a3.5 3.5 0 1 0-3.3-2.3L2.5 11.4v2.1h2.1v-1.6h1.6v-1.6l1-1A3.5 3.5 0 0 0 10.5 9ZM11.3 4.7h.01",
  external: "M9.5 2.5h4v4M13.5 2.5 7.5 8.5M11.5 9.5v4h-9v-9h4",
  help: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM6.2 6.3a1.8 1.8 0 1 1 2.6 1.6c-.5.3-.8.6-.8 1.2M8 11.2v.1",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 7.2v4M8 4.8v.1",
  pulse: "M1.5 8.5h3l2-5 3 9 2-4h3",
  notification: "M4 11V7a4 4 0 0 1 8 0v4l1.2 1.5H2.8ZM6.7 14.2h2.6",
  megaphone: "M2.5 6.5v3h2l6 3.5v-10l-6 3.5ZM12.8 6.2a2.6 2.6 0 0 1 0 3.6M5.5 10v3.5h2",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
} as const;

export type IconName = keyof typeof PATHS;

/** A line icon in the text's colour; it says nothing to a screen reader, its button does. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  const weight = name === "more" ? 2.4 : 1.5;
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path
        d={PATHS[name]}
        fill="none"
        stroke="currentColor"
        strokeWidth={weight}
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
