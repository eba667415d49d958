import css from "./PathList.module.css";

interface Props {
  label: string;
  items: { path: string; message: string }[];
}

/** What is said of places in a file or of nodes, each with its path. */
export function PathList({ label, items }: Props) {
  return (
    <ul className={css.list} tabIndex={0} aria-label={label}>
      {items.map(({ path, message }) => (
        <li key={path + message}>
          {path ? <code>{path}</code> : null}
          <p>{withoutPath(message, path)}</p>
        </li>
      ))}
    </ul>
  );
}

/** Some sentences begin with the path that stands above them. */
function withoutPath(message: string, path: string): string {
  if (!path || !message.startsWith(path)) return message;
  return message.slice(path.length).replace(/^[:\s]+/, "");
}
