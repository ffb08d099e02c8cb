import { getRouteApi } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { FrontDoor } from "../ui/front-door";
import { AccountMenu } from "./account-menu";

const route = getRouteApi("/inside/");

/** Shown to a user of no organisation, who may have logged in with another account than the invited one. */
export function StartScreen() {
  const texts = useTexts();
  const { user } = route.useRouteContext();
  return (
    <FrontDoor title="Gridfleet">
      <p>{texts.login.noOrganization}</p>
      <AccountMenu name={user.name} rights={user.email} />
    </FrontDoor>
  );
}
