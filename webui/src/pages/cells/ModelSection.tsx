import type { CheckedAssignment, Chain } from "@/api/types";
import { shortModel } from "@/format/names";
import { Levels } from "./Levels";
import { ModelTable } from "./ModelTable";
import type { Problems } from "./places";
import type { Editor } from "./useEditor";
import css from "./ModelSection.module.css";

interface Props {
  model: string;
  chains: Chain[];
  editor: Editor;
  left: CheckedAssignment["left"] | undefined;
  problems: Problems;
}

/** One GPU model: how its cells are made, and who owns how many of them. */
export function ModelSection({ model, chains, editor, left, problems }: Props) {
  return (
    <section className={css.section} aria-label={shortModel(model)}>
      <h2 className={css.title}>{shortModel(model)}</h2>
      {chains.map((chain) => (
        <Levels key={chain.chain} chain={chain} />
      ))}
      <ModelTable model={model} chains={chains} editor={editor} left={left} problems={problems} />
    </section>
  );
}
