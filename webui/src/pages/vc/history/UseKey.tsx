import css from "./UseKey.module.css";

const KEY = [
  ["used", "Used"],
  ["borrowed", "Borrowed from others"],
  ["lent", "Lent to others"],
  ["bad", "Bad"],
  ["owned", "Owned"],
] as const;

export function UseKey() {
  return (
    <ul className={css.key} aria-label="Legend">
      {KEY.map(([part, word]) => (
        <li key={part}>
          <i data-part={part} /> {word}
        </li>
      ))}
    </ul>
  );
}
