import { Link } from "@tanstack/react-router";
import type { HomeVc } from "@/api/home";
import { shortModel } from "@/format/names";
import { UsageBar } from "@/ui/UsageBar";
import css from "./HomePage.module.css";

/** What a guaranteed job of each of the reader's virtual clusters could have now. */
export function FreeGpus({ vcs }: { vcs: readonly HomeVc[] }) {
  if (vcs.length === 0) return <p className="dim">You have a role in no virtual cluster.</p>;
  return (
    <ul className={css.jobs}>
      {vcs.map((vc) => (
        <li key={vc.name} className={css.vc}>
          <Link to="/virtual-clusters/$name" params={{ name: vc.name }} className="link">
            {vc.name}
          </Link>
          {vc.gpus.length === 0 ? <span className="dim">owns no GPUs</span> : null}
          {vc.gpus.map((gpus) => (
            <div key={gpus.gpu_model} className={css.gpus}>
              <span className="num">
                <b>{gpus.free}</b> of {gpus.owned}{" "}
                <span className="name">{shortModel(gpus.gpu_model)}</span> free
                {gpus.borrowed > 0 ? (
                  <span className="dim">, {gpus.borrowed} more borrowed</span>
                ) : null}
              </span>
              <UsageBar
                used={gpus.used}
                owned={gpus.owned}
                label={`${gpus.gpu_model} used by ${vc.name}`}
              />
            </div>
          ))}
        </li>
      ))}
    </ul>
  );
}
