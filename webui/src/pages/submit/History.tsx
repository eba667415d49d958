import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { jobs } from "@/api/jobs";
import { me } from "@/api/session";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import { Section } from "@/ui/Section";
import { RelativeTime } from "@/ui/Time";
import css from "./SubmitPage.module.css";

const MOST = 5;

/** The newest jobs of the reader, to start a new one from. */
export function History() {
  const { data: user } = useQuery(me);
  const query = useQuery({
    ...jobs({ owner: user?.username ?? "", limit: MOST }),
    enabled: user !== undefined,
  });
  const { data } = query;
  if (isUnread(query)) return <ReadNote query={query} what="list of your earlier jobs" />;
  if (!data || data.results.length === 0) return null;
  return (
    <Section title="Start from an earlier job">
      <ul className={css.examples}>
        {data.results.map((job) => (
          <li key={job.id}>
            <Link to="/jobs/new" search={{ from: job.id }} className={css.example}>
              <span className={css.title}>{job.name}</span>
              <span className="dim">
                <RelativeTime at={job.submitted_at} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </Section>
  );
}
