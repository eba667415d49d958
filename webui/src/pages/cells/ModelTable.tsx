import type { CheckedAssignment, CellLevel, Chain } from "@/api/types";
import { Stepper } from "@/ui/Stepper";
import { keyOf, type Field } from "./draft";
import { LeftBar } from "./LeftBar";
import { idOf, type Problems } from "./places";
import type { Editor } from "./useEditor";
import { chainWords, fieldWords, gpusOf, shortWords } from "./words";
import css from "./ModelTable.module.css";

interface Props {
  model: string;
  chains: Chain[];
  editor: Editor;
  left: CheckedAssignment["left"] | undefined;
  problems: Problems;
}

interface Column {
  chain: Chain;
  level: CellLevel;
}

/** Virtual clusters by types of cells, and at the foot what is left of each. */
export function ModelTable({ model, chains, editor, left, problems }: Props) {
  const columns = chains.flatMap((chain) =>
    chain.levels.toSorted((a, b) => b.level - a.level).map((level) => ({ chain, level })),
  );
  return (
    <div className={css.box}>
      <table className={css.table}>
        <Heads chains={chains} columns={columns} />
        <tbody>
          {editor.draft.vcs.map((vc) => (
            <Row
              key={vc}
              vc={vc}
              model={model}
              chains={chains}
              columns={columns}
              editor={editor}
              problems={problems}
            />
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Left</th>
            {columns.map(({ chain, level }) => (
              <td key={chain.chain + level.type}>
                <LeftBar
                  chain={chain}
                  level={level}
                  left={left?.find(
                    (each) => each.chain === chain.chain && each.type === level.type,
                  )}
                  problems={problems}
                />
              </td>
            ))}
            <td />
            <td />
          </tr>
        </tfoot>
      </table>
    </div>
  );
}

function Heads({ chains, columns }: { chains: Chain[]; columns: Column[] }) {
  return (
    <thead>
      {chains.length > 1 ? (
        <tr className={css.chains}>
          <td />
          {chains.map((chain) => (
            <th key={chain.chain} scope="colgroup" colSpan={chain.levels.length}>
              {chainWords(chain)}
            </th>
          ))}
          <td colSpan={2} />
        </tr>
      ) : null}
      <tr>
        <th scope="col">Virtual cluster</th>
        {columns.map(({ chain, level }) => (
          <th key={chain.chain + level.type} scope="col" title={level.type}>
            {shortWords(level)}
            <span className={css.size}>{level.gpus === 1 ? "1 GPU" : `${level.gpus} GPUs`}</span>
          </th>
        ))}
        <th scope="col" title="Counted in GPUs: given in the largest cells that fit">
          By count
          <span className={css.size}>any GPUs</span>
        </th>
        <th scope="col" className={css.sum}>
          In all
          <span className={css.size}>GPUs</span>
        </th>
      </tr>
    </thead>
  );
}

interface RowProps extends Omit<Props, "left"> {
  vc: string;
  columns: Column[];
}

function Row({ vc, model, chains, columns, editor, problems }: RowProps) {
  const fields = [
    ...columns.map(({ chain, level }) => ({ vc, chain: chain.chain, type: level.type })),
    { vc, chain: "", type: model },
  ];
  const wrong = fields.flatMap(
    (field) => problems.get(idOf({ at: "claim", key: keyOf(field) })) ?? [],
  );
  const told = `${idOf({ at: "claim", key: vc + model })}-told`;
  const now = gpusOf(vc, model, chains, editor.draft);
  const before = gpusOf(vc, model, chains, editor.base);
  return (
    <>
      <tr>
        <th scope="row" className={css.vc}>
          {vc}
        </th>
        {fields.map((field) => (
          <td key={keyOf(field)}>
            <Claim field={field} chains={chains} editor={editor} problems={problems} told={told} />
          </td>
        ))}
        <td className={css.sum}>
          <span className="num">{now}</span>
          {now === before ? null : (
            <span className={css.delta}>
              {now > before ? "+" : "−"}
              {Math.abs(now - before)}
            </span>
          )}
        </td>
      </tr>
      {wrong.length > 0 ? (
        <tr className={css.wrong}>
          <td colSpan={fields.length + 2} id={told}>
            {wrong.map((problem) => problem.message).join(" ")}
          </td>
        </tr>
      ) : null}
    </>
  );
}

interface ClaimProps {
  field: Field;
  chains: Chain[];
  editor: Editor;
  problems: Problems;
  /** Id of the row's errors in words. */
  told: string;
}

function Claim({ field, chains, editor, problems, told }: ClaimProps) {
  const key = keyOf(field);
  const id = idOf({ at: "claim", key });
  const value = editor.draft.claims[key] ?? 0;
  return (
    <>
      <Stepper
        id={id}
        label={`${field.vc}: ${fieldWords(chains, field)}`}
        value={value}
        changed={value !== (editor.base.claims[key] ?? 0)}
        error={problems.has(id) ? told : undefined}
        onChange={(number) => editor.dispatch({ do: "claim", field, number })}
      />
      {editor.clashing.has(key) ? (
        <span className={css.clash}>they saved {editor.base.claims[key] ?? 0}</span>
      ) : null}
    </>
  );
}
