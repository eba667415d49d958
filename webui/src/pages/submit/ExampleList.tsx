import { Section } from "@/ui/Section";
import { EXAMPLES, type Example } from "./examples";
import css from "./ExampleList.module.css";

export function ExampleList({ onChoose }: { onChoose: (example: Example) => void }) {
  return (
    <Section title="Start from an example">
      <ul className={css.examples}>
        {EXAMPLES.map((example) => (
          <li key={example.title}>
            <button type="button" className={css.example} onClick={() => onChoose(example)}>
              <span className={css.title}>{example.title}</span>
              <span className="dim">{example.about}</span>
            </button>
          </li>
        ))}
      </ul>
    </Section>
  );
}
