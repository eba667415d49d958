import type { Job } from "@/api/types";
import { YamlView } from "@/pages/submit/editor/YamlView";

export default function SpecTab({ job }: { job: Job }) {
  return <YamlView text={job.spec_text} label={`Job file of ${job.name}`} />;
}
