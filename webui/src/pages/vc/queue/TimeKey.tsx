import css from "./TimeKey.module.css";

const KEY = [
  ["running", "Running"],
  ["reserved", "Reserved"],
  ["expected", "Expected"],
] as const;

export function TimeKey() {
  return (
    <ul className={css.key} aria-label="Legend">
      {KEY.map(([certainty, word]) => (
        <li key={certainty}>
          <i data-certainty={certainty} /> {word}
        </li>
      ))}
      <li>
        <i data-opportunistic /> Opportunistic
      </li>
      <li>
        <i data-open /> End not known
      </li>
    </ul>
  );
}
