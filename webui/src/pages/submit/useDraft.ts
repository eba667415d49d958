import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { images } from "@/api/admin";
import { job } from "@/api/jobs";
import { me } from "@/api/session";
import { EXAMPLES, type Ground } from "./examples";
import { withNextName } from "./nextName";
import { withoutSecrets } from "./withoutSecrets";

const KEPT_AS = "skep-draft";

interface Draft {
  /** null while the job to be copied is read. */
  text: string | null;
  ground: Ground;
  error: unknown;
  write: (text: string) => void;
  forget: () => void;
}

/** The job file being written: kept for this tab, so that a look elsewhere does not lose it. */
export function useDraft(from: string | undefined): Draft {
  const ground = useGround();
  const original = useQuery({ ...job(from ?? ""), enabled: from !== undefined });
  const [written, setWritten] = useState<string | null>(() =>
    from ? null : sessionStorage.getItem(KEPT_AS),
  );
  const copied = original.data ? withNextName(original.data.spec_text) : null;
  const start = from ? copied : (EXAMPLES[0]?.text(ground) ?? "");
  return {
    text: written ?? start,
    ground,
    error: from ? original.error : null,
    write: (text) => {
      setWritten(text);
      keep(withoutSecrets(text));
    },
    forget: () => sessionStorage.removeItem(KEPT_AS),
  };
}

/** Values of secrets stay in the page: the storage of the tab lies in the clear on the disk. */
function keep(text: string | null) {
  if (text === null) sessionStorage.removeItem(KEPT_AS);
  else sessionStorage.setItem(KEPT_AS, text);
}

function useGround(): Ground {
  const { data: user } = useQuery(me);
  const { data: known } = useQuery(images);
  return {
    virtualCluster: user?.virtual_clusters[0]?.name ?? "default",
    image: known?.[0]?.name ?? "python:3.12-slim",
  };
}
