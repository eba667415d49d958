import { Legend } from "@/ui/Legend";
import css from "./TimelineLegend.module.css";

const LEGEND = [
  ["running", "Running"],
  ["reserved", "Reserved"],
  ["expected", "Expected"],
] as const;

export function TimelineLegend() {
  return (
    <Legend className={css.key}>
      {LEGEND.map(([certainty, word]) => (
        <li key={certainty}>
          <i data-certainty={certainty} /> {word}
        </li>
      ))}
      <li>
        <i data-opportunistic /> Opportunistic
      </li>
      <li>
        <i data-open /> End unknown
      </li>
    </Legend>
  );
}
