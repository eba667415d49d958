import { CopyableCode } from "@/ui/CopyableCode";
import { LinkButton } from "@/ui/LinkButton";
import css from "./HomePage.module.css";

/** How to submit the first job, for who has submitted none. */
export function FirstJob({ vc }: { vc: string | undefined }) {
  return (
    <section className={css.first} aria-label="Your first job">
      <h2 className={css.title}>Submit your first job</h2>
      <p>
        A job is a gang of containers that starts together, once its virtual cluster has the GPUs.
        Write one in the page, or run a command from a terminal:
      </p>
      <CopyableCode
        text={`skep run${vc ? ` --vc ${vc}` : ""} --gpus 1 -- nvidia-smi`}
        label="Command"
      />
      <div>
        <LinkButton to="/jobs/new">Write a job</LinkButton>
      </div>
    </section>
  );
}
