import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { ruleQuery } from "../rules";
import { Failure } from "../ui/failure";
import { SubPageHead } from "../ui/sub-page-head";
import { RuleForm } from "./rule-form";

const route = getRouteApi("/inside/o/$slug");

/** The editor of a new rule. */
export function NewRuleScreen() {
  return (
    <>
      <Heading title={useTexts().rules.add} />
      <RuleForm rule={null} />
    </>
  );
}

/** The editor of a rule. */
export function RuleScreen() {
  const texts = useTexts();
  const { organization } = route.useRouteContext();
  const { ruleId } = getRouteApi("/inside/o/$slug/rules/$ruleId").useParams();
  // Fields keep the values that they begin with: they begin with those of now, not of the last visit.
  const rule = useQuery({ ...ruleQuery(organization.id, ruleId), refetchOnMount: "always" });
  return (
    <>
      <Heading title={rule.data?.name ?? texts.rules.rule} />
      <Failure error={rule.error} />
      {rule.data && rule.isFetchedAfterMount && <RuleForm key={rule.data.id} rule={rule.data} />}
    </>
  );
}

function Heading({ title }: { title: string }) {
  const texts = useTexts();
  const { organization } = route.useRouteContext();
  return (
    <SubPageHead title={title} organization={organization}>
      <Link to="/o/$slug/rules" params={{ slug: organization.slug }}>
        {texts.rules.title}
      </Link>
    </SubPageHead>
  );
}
