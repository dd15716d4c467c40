"""The grammar of an English refusal, read one sentence at a time.

A sentence is in lower case with ASCII quotes and single spaces. `refusal_in` finds a refusal that
the speaker makes: who (I, we, this assistant), how (cannot, will not, decline, against policy) and
what (any act, but for idioms and honest inability). The other patterns are the weaker signs that
`rules` weighs: condemning, admonishing, redirecting, holding no opinion.
"""

from __future__ import annotations

import re


def _any(alternatives: str) -> str:
    """A group of alternatives, separated by a bar between blanks."""
    return "(?:" + "|".join(part.strip() for part in alternatives.split(" | ")) + ")"


_SPEAKER = (
    r"(?<![\w'-])(?:i|we|this (?:assistant|ai|model|chatbot|bot)|the assistant)(?![\w])"
    r"(?: and \w+)?"
)
_ADVERBS = (
    r"(?:,? (?:"
    + r"really|very|truly|simply|just|still|also|therefore|thus|unfortunately|sadly|respectfully"
    r"|politely|firmly|personally|currently|ethically|legally|morally|absolutely|definitely"
    r"|generally|actually|only|directly|always|never|ever|certainly|sorry|afraid|however"
    r"|regretfully|kindly|strictly|expressly|explicitly|specifically|strongly|both|either|to say"
    r"|necessarily|hereby|instead|in good (?:conscience|faith)|at this time|under any circumstances"
    r"|as an? [a-z -]{2,40}|going|be|honestly|frankly|and|in any way|knowingly|willingly|going to"
    r")){0,4},?"
)
_ADJECTIVE_NO = _any(
    r"unable | not (?:\w+ )?(?:able|allowed|permitted|authori[sz]ed|in a position|designed"
    r"|programmed|prepared|willing|going|gonna|comfortable|equipped|supposed|intended|inclined"
    r"|meant|here|set up|capable of|about|ready|trained|built|at liberty|interested in|qualified)"
    r" | prohibited | restricted | forbidden | barred | unwilling | hesitant | reluctant"
    r" | unauthorized | uncomfortable | prevented | precluded"
)
_NEGATED = (
    r"(?:(?:'ll (?:never|not)| "
    + _any(
        r"can ?not | can ?'?t | can no longer | can neither | can never | could(?: not|n't)"
        r" | will not | won'?t | will never | will no longer | would(?: not|n't| never)"
        r" | must(?: not|n't) | may not | should(?: not|n't) | shall not"
    )
    + r")(?: be able to| be)?|(?: am|'m| are|'re| is| feel| remain)"
    + _ADVERBS
    + " "
    + _ADJECTIVE_NO
    + r"(?: with| to| from)?)"
)
# Acts of help: what an assistant does for a user. Verbs of knowing, seeing and feeling are left
# out, since lacking those is no refusal.
_HELP = _any(
    r"help | helping | assist | assisting | aid | comply | complete | completing | provid(?:e|ing)"
    r" | fulfill? | giv(?:e|ing) | creat(?:e|ing) | writ(?:e|ing) | generat(?:e|ing)"
    r" | produc(?:e|ing) | engag(?:e|ing) | offer(?:ing)? | shar(?:e|ing) | support "
    r"| answer(?:ing)?"
    r" | respond | discuss(?:ing)? | continue | proceed | participat(?:e|ing) | teach | explain"
    r" | describ(?:e|ing) | instruct | guide | walk you | recommend | suggest | advise | condone"
    r" | encourage | promot(?:e|ing) | endorse | facilitat(?:e|ing) | contribut(?:e|ing)"
    r" | accommodate | grant | entertain | process | perform | carry out | execute | translate"
    r" | draft | compose | craft | design | develop | make | supply | reveal | disclose | list"
    r" | present | simulate | pretend | role-?play | act as | play | portray | tell | say | do"
    r" | satisfy | honou?r | address | go along | go there | go into | go down | get into"
    r" | take part | indulge | oblige | agree to | advocate | repeat | reproduce | quote | output"
    r" | print | display | return | send | post | publish | deliver | build | code | plan | outline"
    r" | summari[sz]e | elaborate | detail | touch | cover | speak about | talk about | justify"
    r" | defend | rewrite | edit | paraphrase | ignore | bypass | override | disregard | adopt"
    r" | impersonate | insult | mock | criticize | joke | use (?:that|this|offensive|such|language)"
    r" | mimic | accept | follow (?:that|this|those|these|such|your) | enable | weigh in | look up"
    r" | glorify | spread | tolerate | hand over | argue | be (?:part|involved|a part|of help|used"
    r"|drafting|writing|providing|sharing|doing (?:that|this|it)|helping|answering|giving|creating"
    r"|making|assisting|engaging|continuing|discussing|playing)"
    r" | put together | come up with | point you | lend | entertain | fabricate | name | confirm or"
    r" | show you | let you | find that | find your | locate | track | identify who | hack | harm "
    r"| hurt | reset | unlock | approve | compile "
    r"| assume"
)
# Idioms and plain inability that carry a verb of help: "can't help but", "can't tell you how
# glad", "can't say for sure", "can't recommend it enough".
_IDIOM = re.compile(
    _any(
        r"help (?:but\b|myself\b|ourselves|it\b|feeling|thinking|wondering|noticing|laughing"
        r"|smiling"
        r"|\w+ing\b(?! (?:you|with|users)))"
        r" | (?:tell|say|express|explain|describe)(?: you)? (?:how (?:much|many|happy|glad"
        r"|important"
        r"|often|sorry|excited|grateful|proud|thrilled|good|wonderful)|for (?:sure|certain)"
        r"|with (?:\w+ )?(?:certainty|confidence)|whether (?!to\b)|if|which|exactly|definitively"
        r"|enough|that(?= \w)"
        r"|the difference|what (?:time|day|the weather))"
        r" | say\b(?! (?:[\"']|slurs|the (?:word|n-?word)|anything|more|those|such))"
        r" | (?:cover|list|mention|name|include) (?:every|all|them all)\b | tell you the (?:time"
        r"|date)"
        r" | (?:recommend|suggest|praise|support|say|do|give|write|overstate)[^,;]{0,90} enough\b"
        r" | do (?:it |this |that |so )?(?:without|alone|justice|anything about|better|as well"
        r"|much about|everything|it all)"
        r" | make (?:it\b|sense|up\b|out\b|the (?:meeting|call|trip)|time|money|promises?|mistakes)"
        r" | make (?:any )?(?:\w+ )?guarantees?"
        r" | (?:ignore|accept|cover everything|go into (?:all|every))\b(?! (?:my|the guidelines|all"
        r" previous|previous|your request|this request|that request))"
        r" | play (?:music|audio|sounds?|games?|the|videos?|a) | (?:make|place) (?:\w+ )?(?:calls?"
        r"|payments?|purchases?|reservations?|bookings?|appointments?)"
        r" | build a | touch (?:things|objects) "
        r"| develop feelings"
        r" | give (?:up|in|birth|it away)\b | present a | continue to (?:live|grow|be)"
        r" | provide (?:for|enough) | deliver on | address all | list (?:them )?all "
        r"| name (?:them )?all"
        r" | pretend (?:to know|otherwise|that|it\b|i\b)"
        r" | (?:show|draw|paint|sing|demonstrate|play)\b[^.!?]{0,40}, but (?:i can|i'll|here)"
        r" | process (?:images?|audio|video|emotions|the fact) | do (?:physical|any physical)"
        r" | assume (?!the (?:role|persona)|that (?:role|persona)|any role)"
    )
    + r"(?!\w)"
)
# Ordinary limits: what is not given says why it is not given.
_LIMIT = re.compile(
    r"\b(?:audio|real[- ]?time|live|up[- ]to[- ]date|latest|future|exact|precise|definitive"
    r"|physical(?:ly)?|(?:images?|pictures?|photos?)(?! of)|first-?hand|guarantees?|100%"
    r"|complete list|exhaustive"
    r"|(?:personali[sz]ed|personal|direct|specific|individual|tailored|professional|qualified"
    r"|licensed)?[ ,]?(?:medical|legal|financial|investment|tax|psychological|mental health"
    r"|religious|spiritual|relationship|professional|personal|dietary)(?: (?:or|and) \w+)?"
    r" (?:advice|diagnos\w+|treatment|recommendations?|services?|care|guidance|assessments?)"
    r"|personal (?:experiences?|anecdotes?)|personali[sz]ed \w+|diagnos\w+|prescrib\w+"
    r"|without (?:more|further|additional|seeing|knowing|access|any)|based on the limited)\b"
)
_JUDGING = _any(
    r"assume | confirm(?:ing)? | stereotype | speculat\w+ | predict\w* | generali[sz]\w* | judg\w+"
    r" | (?:make|making) (?:any )?(?:\w+ ){0,3}(?:assumptions?|generali[sz]ations?|judge?ments?"
    r"|predictions?|claims?|speculations?|comparisons?|statements?|comments?|decisions?"
    r"|conclusions?)"
    r" | comment(?:ing)? | evaluat\w+ | speak (?:for|on|to) | take sides? | opine | infer"
    r" | interpret(?:ing)?"
    r" | (?:express|provide|have|offer|give|share|hold|form|possess|take|voice|state|pass)"
    r"(?: (?:you|an?|any|my|with|on|a \w+)){0,3} ?(?:\w+ ){0,2}(?:opinions?|beliefs?|views?"
    r"|judge?ments?|stance|sides?|preferences?|perspectives?|viewpoints?|position|speculation)"
)
_CANNOT_HELP = re.compile(
    rf"(?:{_SPEAKER}{_ADVERBS}{_NEGATED}"
    r"(?: ?[-,(]? ?(?:and|nor|or) (?:i )?(?:will not|won't|cannot|can't|would not)\)?,?(?: -)?)?"
    r"|^\W{0,4}(?:(?:sorry|apologies|unfortunately|no|nope|regrettably)[,.!]? ?(?:but )?)?"
    r"(?:can ?not|can't|won't|unable to|not able to|not going to)"
    r"|sorry,? (?:but )?(?:cannot|can't|won't|unable to)"
    r"|\b(?:and|but|so),? (?:therefore |thus |hence |also )?(?:can ?not|can't|will not|won't"
    r"|am unable to|am not able to))"
    rf"{_ADVERBS}(?: (?!(?:comp|rep|app|supp|re)ly)\w+ly| even| yet| quite)? (?P<verb>[a-z][\w'-]*)"
)
_ACT_OF_HELP = re.compile(_HELP + r"\b")
# Modal verbs that decline whatever the verb; "I wouldn't", "I couldn't" and "I may not" do so with
# an act of help alone.
FIRM = re.compile(
    r"\b(?:can ?not|can ?'?t|can no longer|can neither|can never|will not|won'?t|'ll (?:never|not)"
    r"|will never|will no longer|unable|unwilling|prohibited|forbidden|barred|restricted"
    r"|not (?:\w+ )?(?:able|allowed|permitted|authori[sz]ed|in a position|programmed|prepared"
    r"|willing|going|gonna|at liberty|about|comfortable|here))\b"
)
FIRMLY = re.compile(
    r"\bi(?:'m| am|'ll|'d|'ve| have| will| would)? (?:\w+ )?(?:won't|will not|not going to|can't"
    r"|cannot|refus\w+"
    r"|declin\w+|draw the line|rather not|not comfortable|leav\w+|left|omit\w*|turn\w* down"
    r"|not willing|don't want to|not includ\w+|skip\w*|kept|pass on|stay\w* (?:out|neutral))\b"
)
# What a speaker may be unable to do, or not do, without withholding anything.
# A first person who will not do something that is no act of help.
NO_ACT = re.compile(rf"\bi (?:will not|won't|can't|cannot) (?!{_HELP}\b)\w+")
_TAKES_PART = re.compile(
    r"(?:\w+ing|part|a party|involved|complicit|used|of (?:\w+ )?(?:help|assistance))\b"
)
_NO_HELP = re.compile(
    _any(
        r"see | hear | access | browse | remember | recall | recogni[sz]e | know | feel"
        r" | experience | verify | view | observe | find(?! (?:that|your|you|someone|anyone|her"
        r"|his))"
        r" | determine | retrieve | open | search | wait | believe | imagine | thank | stress"
        r" | emphasi[sz]e | over(?:state|emphasi[sz]e) | understate | understand | read | afford"
        r" | sleep | eat | drink | taste | smell | touch | stand | bear | complain | resist | deny"
        r" | promise | guarantee | claim | lie | sugar-?coat | blame | have | love | agree | get"
        r" | take (?:credit|all|your|my|the credit) | come | go(?! (?:into|there|down|along|over"
        r"|through|further|in)\b) | work | keep | ask | live | forget | miss | run | connect "
        r"| listen"
        r" | watch | hold | control | interact | learn | store | save | attend | move | own | die"
        r" | physically | call | phone | set | decide | compare | speak | promise | seem | stop"
        r" | vouch | think | be | lose | win | force | change | sing | dance | walk(?! (?:you"
        r"|anyone"
        r"|through|someone)) | thank | express | argue with | pretend (?:to know|otherwise|that|it)"
        r" | even | examine | attest | be | make (?:calls?|phone|a call|payments?|reservations?"
        r"|bookings?|purchases?)"
        r" | look (?:at|into) | check | test | try | visit | meet | talk to | wrap | fathom | start"
        r" | turn back | pay | buy | use it | use my | hurt | bore | blame | judge | repeat myself"
        r" | leave (?:him|her|it|my|the) | only | and | or | but | not | to | the | a | in | for "
        r"| with"
        r" | we | he | she | they | it | you | my | because | either | it's | do (?:any|both"
        r"|better)"
    )
    + r"(?!\w)"
)
_WILL_NOT = re.compile(
    rf"(?:^(?:\w+[,:] |(?:i'?m |i am )?(?:afraid|sorry),? (?:but |that )?)?"
    rf"|[,;-] ?(?:so |and |but )?)(?:i|we){_ADVERBS} (?:can ?not|can't|will not"
    r"|won't)(?: and (?:won't|will not))?(?:[.!;]|,? (?:and|but|sorry|because|since)\b|$)"
)
_DECLINES = re.compile(
    rf"{_SPEAKER}(?: would|'d| will|'ll| must| have|'ve| have(?: got)? to|'ve got to| need to| am"
    rf"|'m"
    rf"| prefer to| choose to| want to| intend to)?{_ADVERBS}"
    rf"(?: (?:have|like|prefer|need|want|got|forced|compelled|obligated|obliged) to| must| will"
    rf"| choosing to| electing to| opting to)?{_ADVERBS} "
    + _any(
        r"declin(?:e|ing) | turn(?:ing)? (?:\w+ ){0,3}down | keep(?:ing)? (?:\w+ ){0,5}(?:out|off"
        r"|private|to myself) | omit(?:ting)? | (?:left|kept|omitted) (?:\w+ ){0,5}(?:out|off"
        r"|aside)"
        r" | (?:leav(?:e|ing)|left) (?!your)(?:[\w'-]+ ){0,5}(?:out|alone|aside|there|be(?=[.,;!]"
        r"|$)"
        r"|blank|empty"
        r"|un(?:touched|written|answered|said|translated|finished|told|named|listed))"
        r" | (?:keep(?:ing)?|kept) (?:[\w'-]+ ){1,5}(?:vague|generic|fictional|high-level)"
        r" | stay(?:ing)? (?:(?:out|away|clear|off)(?= (?:of|from) (?:this|that"
        r"|it|these|those|such|your|any\w*|politic\w*|debates?)\b|[.,;!]|$)|neutral|myself\b)"
        r" | skip(?:ping|ped)? (?:this|that|it)\b | (?:skip|omit|skipped)(?=[.,!]|$)"
        r" | (?:skip|skipping|skipped) (?:the|any|your|those|these) (?!(?:small talk|pleasantries"
        r"|intro"
        r"|preamble|basics|formalit|boring|details|usual|first|line|queue|gym))"
        r" | leave (?:\w+ ){0,3}to (?:others|someone|somebody) | end(?:ing)? (?:this|it|our"
        r"|the \w+)\b"
        r" | rather (?:we|you) (?:not|didn't|don't) | decided (?:against|not to)"
        r" | opted (?:against|not to) | stop(?:ping)? (?:here|there|at that|before|short) "
        r"| refus(?:e|ing)(?! to (?:believe|accept|give up|let|be))"
        r" | abstain(?:ing)? | refrain(?:ing)? from | pass on(?: (?:this|that|it)\b|[.!]|$)"
        r" | pass\b(?=[.,!]|$) | sit this (?:one )?out | draw (?:the|a) line | stop (?:short"
        r"|you there|you right there|here)"
        r" | leave out "
        r"| opt out"
        r" | steer(?:ing)? (?:clear|away) | bow out | rather not | prefer not"
        r" | choose not to | chosen not to | opt not to | choosing not to | keep away from "
        r"| say no | withhold"
        r" | stay away from | hold back"
        r" | (?:hold off on|avoid|hold off) (?:giving|providing|discussing|writing|creating"
        r"|helping"
        r"|engaging|answering)"
    )
    + r"(?!\w)"
    r"|\b(?:and|so|thus|therefore|hence),? (?:therefore |thus |hence )?(?:must|have to|need to"
    r"|will have to|am going to) (?:\w+ly )?(?:declin|refus|pass|say no|abstain)"
)
_NOT_DOING = re.compile(
    rf"{_SPEAKER}(?:'m| am|'re| are)(?: \w+ly| just| simply)? not(?: \w+ly)? (?:doing (?:that|this"
    rf"|it|so)"
    r"|(?:getting|going) (?:into|there|near)|(?:touching|helping|assisting|providing|giving|sharing"
    r"|writing|creating|producing|offering|answering|discussing|explaining|describing|including"
    r"|listing|naming|teaching|playing along|engaging|participating|taking part|printing|posting"
    r"|sending|generating|making (?:that|this|one|any)|continuing|walking|coaching|guiding)\b)"
)
_DOES_NOT = re.compile(
    rf"{_SPEAKER}{_ADVERBS} (?:do not|don't|dont|never){_ADVERBS} "
    + _any(
        r"feel (?:comfortable|able|right)"
        r" | think (?:i|that i|it's|it is|this is|that's) (?:can|should|could|am able|'m able|will"
        r"|something i|an? (?:suitable|appropriate|good|proper) (?:topic|idea|request|question)"
        r"|a good idea|right (?:for me )?to)"
        r" | do (?:that|this|it|so)\b"
        r" | wish to (?:help|assist|provide|continue|discuss|engage)"
        r" | want (?:to|any) (?:help|assist|provide|contribute|be (?:a )?part|be involved|write"
        r"|produce"
        r"|give|do that|engage|encourage|promote|create|generate|rate|rank|share|describe|explain"
        r"|discuss|name|list|teach|tell you how|play|part|reproduce|repeat|translate|include"
        r"|go into)"
        r" | (?:provide|assist|help|create|generate|write|produce|engage in|participate|offer|share"
        r"|give(?! up)|point|link|disclose|reveal|discuss|teach|answer|fulfill?|execute|take (?:on"
        r"|part)|draft"
        r"|role-?play|impersonate|pretend|pose as|use (?:that|such|slurs|this)|identify (?:people"
        r"|individuals|anyone)|rank|rate|tell (?:people|anyone)|hand (?:out|over)|pass on|glorify"
        r"|facilitate|repeat|compile|fabricate|invent|reproduce|walk)"
        r"\b(?! (?:any )?(?:personal (?!details|data|information|contact)|advice|legal|medical))"
    )
)
_UNCOMFORTABLE = re.compile(
    rf"{_SPEAKER}(?: am|'m| feel| would be|'d be|'m just| am just){_ADVERBS} "
    r"(?:not (?:\w+ )?comfortable|uncomfortable|not okay with|not ok with)\b"
    rf"|{_SPEAKER} (?:would not|wouldn't|do not|don't|could not) feel (?:right|comfortable|good"
    rf"|okay)"
)
_REQUEST = (
    r"(?:requests?|quer(?:y|ies)|prompts?|tasks?|inquir(?:y|ies)"
    r"|(?:type|kind|sort) of (?:content|request|information|material|conversation|language))"
)
_REQUEST_BARRED = re.compile(
    rf"\b(?:this|that|your|the|such|these|those|any)(?: \w+){{0,3}} {_REQUEST}(?: \w+){{0,6}}? "
    + _any(
        r"can ?not be | can't be | won't be | will not be | (?:is|are) (?:\w+ )?(?:not (?:something"
        r"|allowed|permitted|one i|within|acceptable|appropriate|a topic)|prohibited|forbidden"
        r"|disallowed|outside|off[- ]limits|against|inappropriate|in violation|unethical|beyond)"
        r" | violat\w+ | go(?:es)? against | falls? (?:outside|under|into) | conflicts? with"
        r" | runs? counter | breach\w* | crosses | must be declined"
        r" | has been (?:blocked|declined|refused|flagged)"
    )
    + r"\b"
)
_NOT_SOMETHING = re.compile(
    r"\b(?:that|this|it|which|those|these)(?:'s| is|'re| are)(?: \w+ly| just| simply)? "
    + _any(
        r"(?:not|nothing|n't)(?: \w+)? ?(?:something|a (?:request|topic|conversation|thing|task"
        r"|subject|road|line|service)|one|content|an area|information|material|somewhere|anything)"
        r" | outside(?: of)? (?:what|the \w+ of what) | beyond what | more than | nothing"
        r" | off(?:-| )limits"
    )
    + r"(?: \w+){0,3}? ?(?:i|we)\b(?!(?: would|'d) (?!help|feel|be|assist|provide|write|do|ever"
    r"|want)"
    r"| worry| know| have| remember| see| recall| need| found| wrote| made)"
    r"|\b(?:isn't|aren't|not|n't be) (?:something|anything|one|somewhere"
    r"|a \w+)(?: of \w+)?(?: that)?"
    r" (?:i|we)(?:'m| am|'ll| will|'d| would| can|'re| are)?\b"
    r"(?! (?:would (?!help|feel|be|do|write)|know|have|remember|see|recall|need|found|wrote|made"
    r"|recommend|suggest|use|like|love|think|believe|expect|hear|come|worry|eat|buy|own))"
)
_CANNOT_BE_GIVEN = re.compile(
    r"\b(?:this|that|such|your|requested|these|it)(?: \w+){0,4} (?:can ?not|can't|will not|won't"
    r"|may not"
    r"|must not) be (?:provided|fulfilled|completed|answered|shared|generated|produced|created"
    r"|honou?red|assisted|accommodated|granted)\b"
)
_RULES_OF = (
    r"(?:polic(?:y|ies)|guidelines?|programming|principles|values|terms|rules|instructions|ethics"
    r"|standards?|code|protocols?|restrictions|mission|boundaries|constraints)\b"
)
_POLICY = re.compile(
    r"\b"
    + _any(
        r"against | violat\w+ | violation of | contrary to | conflicts? with | in conflict with"
        r" | breach(?:es|ing)?(?: of)? | inconsistent with | incompatible with | not (?:align\w*"
        r"|consistent|compatible|compliant|in line|comply) with | counter to"
        r" | prohibited (?:by|under) | not (?:permitted|allowed) (?:by|under) | restricted by"
    )
    + r" (?:the |all |both )?(?:my|our|openai's|anthropic's|google's|meta's|platform|content|usage"
    r"|use[- ]case|safety|community|guidelines|ethical|moral)\b"
    rf"(?:[ -]\w+,?){{0,6}}? {_RULES_OF}"
    r"|\b(?:my|our|openai's) (?:\w+ ){0,3}?(?:policy|policies|guidelines|programming|rules"
    r"|principles|values|restrictions|creators|developers) (?:\w+ )?(?:(?:do(?:es)? not|don't"
    r"|doesn't"
    r"|won't|will not) (?:allow|permit|let|enable)|prohibits?|forbids?|prevents?|restricts?"
    r"|disallows?|keeps? me)\b"
    r"|\bnot (?:with)?in my (?:programming|guidelines|nature|design|capacity|ability) to\b"
    r"|\bnot within my (?:\w+ ){1,6}to\b|\bgo(?:es)? against (?:my|everything i|that (?:purpose"
    r"|design))\b"
    r"|\bagainst (?:the )?(?:rules|guidelines|principles|values)(?: that)? (?:i|we)\b"
    rf"|\b(?:it|this|which|and) (?:would )?(?:goes?|violates?|promotes?[^.!?]{{0,40}} goes?)"
    rf"(?: against)? (?:the |basic |fundamental |all )?(?:\w+,? ){{0,4}}?{_RULES_OF}"
)
_TO_YOU = re.compile(
    r"\b(?:you|your|requests?|information|instructions|content|(?:that|this)\b(?! \w+ (?:is|are"
    r"|here)))"
)
_ADVISES_AGAINST = re.compile(
    r"\b(?:wouldn't|would not|shouldn't|should not)(?: \w+)? (?:recommend|suggest|advise|say|do"
    r"|use|go)\b|\balso (?:can't|cannot) recommend\b"
)
_ADVICE = re.compile(r"(?:'d| would) (?:\w+ )?(?:steer|stay|avoid|hold|skip|keep|leave)")
_JUDGES = re.compile(_JUDGING + r"(?!\w)")
_PROMOTES = re.compile(
    r"(?:promot\w+|endorse|condone|encourage|support|advocate|tolerate)\b(?! or (?:provide|assist"
    r"|help))"
)
_APOLOGISES = re.compile(
    r"^(?:i(?:'m| am) (?:\w+ ){0,2}?sorry|sorry|i (?:\w+ )?apologi[sz]e|apologies|my apologies)\b"
)
_DESIGNED = re.compile(
    rf"{_SPEAKER}(?: am|'m| was| have been|'ve been| must| have to| need to| strive to| aim to"
    rf"|'m required to){_ADVERBS} "
    r"(?:(?:programmed|designed|trained|bound|required|obligated|built|made|created|instructed"
    r"|committed|obliged|supposed|meant|intended)(?=(?: only)? (?:to|not to|by)\b)|adhere|remain"
    r"|maintain"
    r"|follow|prioriti[sz]e|promote|stay|comply)\b(?P<rest>[^.!?]{0,170})"
)
_DESIGNED_NOT = re.compile(
    r"^ ?(?:not\b|avoid|refrain)|\bnot to\b|\bavoid (?:generating|providing|creating|engaging"
    r"|promoting)|guidelines? (?:that|which) (?:\w+ )?(?:prevent|prohibit|restrict|include)"
    r"|prevents? me|prohibits? me|\bpolic(?:y|ies)\b|^ (?:to )?(?:a )?strict|(?:do"
    r"|does) not (?:allow"
    r"|permit)|\bstrict (?:ethical|safety|content)|(?:uphold|follow|adhere to) ethical guidelines"
    r"|not (?:promote|engage|provide|generate|create)"
    r"|\bwould (?:\w+ )?(?:violate|contradict|conflict|go against|break|undermine)"
)
_WRONG = (
    r"(?:appropriate|ethical|possible|acceptable|right|responsible|okay|ok|safe|legal|permissible"
    r"|proper|respectful|a good idea|my place|in my place)"
)
_NOT_RIGHT = re.compile(
    r"(?:(?:\b(?:not|never|neither)|n't)(?: be)?(?: \w+ly)?"
    rf" {_WRONG}(?:,? (?:or|and|nor) \w+)?"
    r"|\b(?:would be|is|are|'s|it's|seems|be)(?: \w+ly)? (?:inappropriate|unethical|irresponsible"
    r"|wrong|illegal|immoral|harmful|unsafe|impossible)(?:,? (?:and|or) \w+)?)"
    r"(?P<speaker> for (?:me|us|an ai\b[\w ]{0,20}|a language model|any ai))? to (?:\w+ly )?"
    + r"(?:(?P<help>provide|give|help|assist|write|create|generate|share|offer|discuss|answer"
    r"|engage"
    r"|produce|promote|respond|encourage|suggest|make jokes|joke|describe|explain|tell|list|teach"
    r"|recommend|endorse|advise|fulfill|comply|glorify|facilitate|instruct|disclose|support|use)\b"
    r"|(?:speculate|make|assume|judge|comment|express|say|determine|generali[sz]e)\b)"
)
_ONLY_HELP = re.compile(
    rf"{_SPEAKER}(?:(?:(?:'m| am)? (?:only|solely|exclusively|strictly)|(?: can|'m able to"
    r"| am able to| may| could) only)(?: \w+){0,3}? ?(?:help|assist|answer|discuss|provide|support"
    r"|respond|talk|handle|cover|able|designed|programmed|trained|set up)\b"
    r"|(?: am|'m)? (?:here|designed|programmed|trained|set up) (?:only|just|solely|specifically"
    r"|exclusively) (?:to|for)"
    r"|(?: am|'m) here to (?:help|assist|talk|answer)[^.!?]{1,60} only\b)"
    r"|\b(?:my (?:focus|role|purpose|job|scope|expertise|function) (?:here )?is (?:limited"
    r"|restricted|only|strictly|solely|confined)\b"
    r"|(?:outside|beyond|not within|out of) (?:of )?(?:my (?:scope|remit|purview|role)"
    r"|the scope of (?:what i|my|this|our)|what (?:i|we)\b))"
)
_BUT_NOT = re.compile(
    rf"{_SPEAKER}(?: can|'d be happy to| am happy to|'m happy to|'ll)\b[^.!?]{{2,160}}?"
    r"[,;-] ?but (?:just )?(?:not (?:with|for|to|about|how|help|provide|in|on)|(?:i )?(?:can't"
    r"|cannot"
    r"|won't))\b"
)
_CHANGES = re.compile(
    r"\bi(?:'d| would) rather (?:\w+ ){1,4}(?:something|instead)\b"
    r"|\b(?:let's|let us|why don't we|how about we|(?:can|could|shall|may|might) we"
    r"|is it possible to)"
    r"(?: \w+){1,6}? (?:something else(?! you)"
    r"|somewhere"
    r"|elsewhere|different|another (?:topic|subject|direction|question)|other topics|safer"
    r"|back to|respectful|instead)\b"
)
# Refusals without an act of help: at the start of a sentence, of the speaker, of the request.
_NO_AT_START = re.compile(
    r"^(?:[^\w|]{0,4}(?:declined|refused|denied|request (?:denied|declined|refused|rejected))\W*$"
    r"|(?:not a chance|no chance|no way|hard no|let's not(?=[.!]|$)|not (?:now|today), not ever"
    r"|(?:i'm |sorry,? (?:but )?(?:i'm )?)?afraid not|out of the question|hard pass|nice try|nope"
    r"|count me out|request (?:denied|declined|refused|rejected)|access denied|over my dead body"
    r"|not (?:going to )?happen\w*)\b"
    r"|(?:sorry,? |i'm afraid |i'm sorry,? )?(?:but )?(?:that|this|it)(?:'s| is| stays| remains)"
    r" (?:confidential|private|classified|(?:also )?a no)\b"
    r"|(?:\w+[.,] )?(?:that|this)(?:'s| is| would be| has to be) (?:an? )?(?:hard |firm |easy )?"
    r"(?:pass|no)\b(?=[.,!;]|$)"
    r"|[^,.;:]{1,40}\b(?:is|are) out(?:, sorry|\b[.,!])"
    r"|[^:]{2,40}: (?:no\b|not from me|declined|refused|no thanks?|omitted)\W*$"
    r"|(?:thanks|thank you),? but no\b|i don't think so\W*$|ask me (?:for|about) (?:any"
    r"|some)thing else"
    r"|no [^.!?]{2,60} (?:from|by) me\b|as for (?:your|the|that) (?:question|request),? no\b"
    r"|(?:error: )?(?:command|request|prompt) not (?:recogni[sz]ed|accepted|allowed|permitted)[.!])"
)
# What is left undone stands first: "the doses I'd leave out", "what I won't do is".
_FRONTED_OBJECT = re.compile(
    r"^(?:and |but |as for )?(?:what (?:i|we)(?:'m| am|'ll)? ?(?:not (?:\w+ )?(?:willing|going|able"
    r"|comfortable|prepared)|won't|will not|can't|cannot)\b[^.!?]{0,60}\bis (?:to )?"
    + _HELP
    + r"\b"
    r"|(?:the|your|that|those|these|any) [^,.;:!?]{2,60} i(?:'d| would|'ll| will|'ve| have)"
    r"(?: rather| prefer to)? (?:skip|skipped|leave out|left out|leave un\w+ed|omit|omitted"
    r"|decline)"
    r"(?=[.,;!]|$))"
)
_NO_OF_SPEAKER = re.compile(
    r"\b(?:(?:where|here) (?:is where )?i (?:(?:have to |must |'ll )?draw the line|stop|get off"
    r"|hold back|bow out"
    r"|step (?:off|away|back))\b"
    r"|(?:line|road|place|path|territory|subjects?|topics?|things?|area)(?: that)? (?:i|we)"
    r" (?:\w+ )?(?:(?:don't|won't|will not|do not|never|can't|cannot|refuse to|keep away|keep clear"
    r"|steer clear|stay (?:out|away)) ?(?:cross|go|touch|enter|take|discuss|handle|do|from|of)?"
    r"|avoid)\b"
    r"|(?:isn't|not|n't be) (?:possible|an option|available) for me\b"
    r"|(?:isn't|not) where (?:i|we) |(?:this|that)(?:'s| is) as far as (?:i|we)(?:'ll| will| can)?"
    r" (?:go|take)\b|where my (?:help"
    r"|part|role) (?:ends|stops)\b"
    r"|(?:i|we) neither \w+ nor (?:would|will|can|do)\b|my hands are tied|against my nature\b"
    r"|ask (?:you|me) (?:to (?:choose|pick)|for (?:an?|any|some)\w*) (?:\w+ )?(?:different|else"
    r"|other)"
    r"|let me stop you\b|(?:would|will) (?:break|violate|breach|go against|be against) (?:my|our)\b"
    r"|(?:not|no|nothing|won't)\b[^.!?]{0,40}\b(?:from|by) (?:me|my side)\b"
    r"|i can only (?:encourage|urge|advise|recommend) (?:you|against)\b"
    r"|(?:isn't|not) (?:one |something |a \w+ )?for me\b(?=[.,!;]|$)"
    r"|no (?:mode|version|way|world|scenario|circumstances?|setting|form)\b(?: \w+){0,5}? (?:i"
    r"|we)\b"
    r"|(?:my|the) answer (?:\w+ )?(?:is|has to be|must be|remains)(?: a)?(?: firm| hard| simple)?"
    r" no\b"
    r"|a (?:firm |hard |clear )?(?:no|pass) (?:from|for) me\b|keep(?:ing)? (?:this|that"
    r"|it)(?: one)? to myself\b"
    r"|i(?:'ll| will)? have (?:no (?:intention|interest|desire)|to disappoint)\b"
    r"|i(?:'m| am) (?:drawing (?:a|the|my)(?: \w+)? (?:line|boundary)|out(?! of)"
    r"|not the right \w+ for)\b"
    r"|\b(?:is|are|will be|stays?|remains?) (?:best |better )?(?:left (?:alone|out|un\w+)"
    r"|where (?:it|they) (?:is|are))\b"
    r"|\b(?:is|are) (?:something|one|a \w+)(?: that)? i(?:'d| would|'ll| will)(?: rather| prefer to)?"
    r" (?:leave alone|decline|pass on|stay out of|not)\b"
    r"|\b(?:going|prefer|like|want|have|rather) (?:to )?(?:stay|remain) (?:just )?(?:myself|as i am"
    r"|who i am)\b)"
)
_NO_TO_REQUEST = re.compile(
    r"\b(?:(?:off the table|out of the question|out of bounds|a no-go|(?:not|n't) on (?:the"
    r"|my) (?:table|menu)"
    r"|stays? out of (?:this|my) (?:answer|reply|response))\b"
    r"(?! for (?:him|her|them|us|most))"
    r"|you(?:'ll| will) (?:have|need) to (?:find|ask|look|go|turn)[^.!?]{0,30}(?:someone|somebody"
    r"|elsewhere)"
    r"|(?:requests?|content|topic)\b[^.!?]{0,30}(?:isn't|is not|aren't|are not) (?:supported"
    r"|available"
    r"|permitted|something)|(?:model|assistant|system) (?:has )?(?:declined|refused|declines"
    r"|refuses) to\b"
    r"|(?:isn't|not|n't be) (?:possible|available) here\b|response (?:withheld|blocked|removed"
    r"|refused)|(?:this|that|it|topic|subject)(?:'s| is)(?: \w+)? off[- ]limits\b"
    r"|falls? (?:under|into) (?:the )?(?:prohibited|disallowed|restricted|forbidden)\b"
    r"|(?:so|and|but)[, ]+(?:it's |that's |the answer is )?(?:a )?no\b(?=[.!;]|$))"
)
# The refusing words belong to a condition, to somebody's speech, or to a denied refusal.
_NOT_THE_SPEAKER = re.compile(
    r"(?:\b(?:if|when|whenever|whether|unless|until|what|why|where|how|things?|anything|everything"
    r"|ones?|someone|people|something|nothing|no reason|reasons?|topics?|though|wish|means?|meant"
    r"|not that|not because|not as if|feels? like|felt like|worried|see|so that|except|that means"
    r"|believes?|thinks?|thought|suggest(?:s|ed)?|imply|implies|doesn't mean|not mean)(?: that)?"
    r"|\b(?:says?|said|saying|tells?|told|repl(?:y|ies|ied)|asked|claim(?:s|ed)?|states|stated"
    r"|respond(?:s|ed)?|answer(?:s|ed)|writes?|wrote|whisper(?:s|ed)|shout(?:s|ed)|insist(?:s|ed)"
    r"|argued|explained|admit(?:s|ted)|added|quoting|quote|like|as in|phrases?|words|lines?|signs?"
    r"|reads?|titled|called|such as)(?: (?:me|you|us|him|her|them|the \w+))?(?: that)?)"
    r"[:,]? ?['\"]? ?$"
)
_FRONTED = re.compile(r"(?!if|when|there|it)\w")
_VERB_LAST = re.compile(
    r"(?:i|we)(?:'m| am|'ll)? ?(?:won't|will not|can't|cannot|refuse to|decline to|not going to"
    r"|not)"
    r" \w+(?: \w+)?[.!]*$"
    r"|(?:i|we)(?:'ve| have|'ll|'d)? (?:left|skipped|omitted|leave|skip) \w+(?:[.!;]|$)"
)
_SPEAKER_SAYS = re.compile(
    r"\b(?:i|we|to)(?:'d| would| must| have to| need to| should| will|'ll| want to| can)?(?: \w+)?"
    r" (?:say|state|tell|inform|stress|reply|repeat|respond|clarify|explain|believe|think|admit"
    r"|mean)(?: (?:you|the user))?(?: that)?[:,]? ?$"
    r"|\b(?:is|'s|are) (?:just )?(?:something|one|an? \w+)(?: that)? ?$"
    r"|\b(?:that's|that is|which is|this is) why ?$|\bthat said[:,]? ?$|\bmeans (?:that )?$"
    r"|\bfor (?:\w+ )?\w+ reasons?[:,]? ?$"
)
# Weaker signs
NO_OPINION = re.compile(
    rf"{_SPEAKER}(?: am an? [\w -]{{2,30}} and| am only| am just)?{_ADVERBS}"
    rf"(?:{_NEGATED}(?: be)?|(?: do not| don't){_ADVERBS}(?: have the (?:ability|capability"
    rf"|capacity) to)?"
    r"| have no| remain| avoid)"
    rf"{_ADVERBS}(?: (?:in a position to|within my \w+ to))? ?(?:{_JUDGING}"
    rf"|(?:personal )?(?:and \w+ )?"
    r"(?:opinions?|beliefs|views|biases|preferences)|(?:have|hold|possess|support|endorse|promote)"
    r"(?: (?:any|an?|my|the|or|personal|political|own|subjective|particular|either|specific"
    r"|\w+,)){0,4}"
    r" ?(?:opinions?|beliefs?|views?|biase?s?|preferences?|stance|sides?|judge?ments?|affiliations?"
    r"|party|political)|neutral\b|determine)"
)
NO_PROMOTION = re.compile(
    rf"{_SPEAKER}{_ADVERBS}(?:{_NEGATED}| do not| don't){_ADVERBS} (?:support|promot\w+|endorse"
    rf"|condone"
    r"|encourage|engage in|advocate|agree with|tolerate)\b"
)
LACKS = re.compile(
    rf"{_SPEAKER}{_ADVERBS}(?: (?:do not|don't|lack|have no|did not|didn't)"
    r"(?: (?:have|possess|know))?(?: \w+,?){0,3}? ?(?:access|information|knowledge|data|the ability"
    r"|the capability|the capacity|capabilit\w+|abilit\w+|records?|details|memory|feelings|emotions"
    r"|consciousness|experiences?|a body|enough|know|context|awareness|sensory)\b"
    r"|(?: am|'m) (?:not (?:aware|sure|certain|familiar|a (?:doctor|lawyer|human|person|real))"
    r"|unaware)"
    r"|(?: can ?not| can't| am unable to|'m unable to| am not able to|'m not able to| couldn't"
    r"| could not)"
    r"(?: \w+ly)? (?:access|browse|see|remember|retain|recall|feel|experience|predict|know|verify"
    r"|view|hear|observe|find|diagnose|prescribe|determine|retrieve|open|search|physically"
    r"|confirm))"
)
OBJECTS = re.compile(
    r"\b(?:i|we)(?: must| have to| need to| would like to|'d like to| want to| should|'m obligated"
    r" to| feel obligated to| cannot ignore)(?: \w+ly)? (?:point out|clarify|advise|inform|address"
    r"|remind|challenge|note|emphasi[sz]e|mention|object|state|express|stress|caution|warn)\b"
    r"(?P<rest>[^.!?]{0,240})"
    r"|\bi (?:do not|don't) (?:think|believe|feel)(?: \w+)? (?:it(?:'s| is)|that(?:'s| it's"
    r"| it is))"
    r" (?P<wrong>(?:\w+ )?(?:appropriate|accurate|fair|right|respectful|ethical|acceptable))"
    r"|\b(?:sorry|apologi[sz]e),? but (?:the|this|that|your) (?:question|statement|premise|prompt"
    r"|assumption)(?P<premise>[^.!?]{0,120})"
)
BAD = re.compile(
    r"problematic|harmful|offensive|inappropriate|not (?:\w+ )?(?:appropriate|ethical|recommended"
    r"|respectful|acceptable)|unethical|illegal|violen|derogatory|discriminat|bias|stereotyp"
    r"|disrespectful|safety concerns|racis|sexist|private and|privacy|confidential"
    r"|assumption in the|against using|everyone,? regardless|incorrect and|false assumptions"
)
UP_TO_OTHERS = re.compile(
    r"\b(?:it is|it's|is|ultimately|are|be)(?: \w+ly)? (?:up to|the (?:responsibility|decision"
    r"|right)"
    r" of|subjective|a (?:matter|question) of (?:\w+ ){0,4}(?:opinion|debate|perspective|taste"
    r"|preference|interpretation|discussion|controversy|choice))\b"
    r"|\b(?:depends?|dependent) (?:up)?on (?:\w+ ){0,6}(?:opinions?|perspectives?|beliefs?|values"
    r"|preferences?|individuals?|interpretation)"
    r"|\b(?:should|must|would) be (?:made|decided|left|determined|based)\b"
    r"|\b(?:individuals?|people|voters|communit\w+|society) (?:to|can|should|must) (?:decide|form"
    r"|determine|make)|\bultimately\b"
)
CONDEMNS = re.compile(
    r"\b(?:isn't|aren't|not) (?:\w+ )?(?:the answer|a solution|okay|ok|acceptable|the way)\b|"
    r"\b(?:is|are|be|'s|remains?|constitutes?|being)(?: (?:both|not only|also|\w+ly|considered"
    r"|a))*? "
    + _any(
        r"illegal | unethical | immoral | wrong(?! to (?:say|assume|think|claim|believe|call))"
        r" | unlawful | criminal | against the law"
        r" | a (?:serious |criminal |violent |federal )?(?:crime|offense|felony)"
        r"(?! (?:in which|that|where|involving|when)) | harmful | dangerous"
        r" | unsafe | inappropriate | unacceptable | irresponsible | disrespectful | reprehensible"
        r" | a (?:serious )?violation | never (?:\w+ )?(?:okay|ok|acceptable|appropriate|the answer"
        r"|a solution|justified) | not (?:\w+ )?(?:okay|ok|acceptable|appropriate|ethical|legal"
        r"|condoned|the answer|a solution)"
    )
    + r"\b"
)
ADMONISHES = re.compile(
    r"\b(?:i|we) (?:would |must |have to |want to |'d )?(?:\w+ly )?(?:advise|urge|encourage"
    r"|recommend|caution|discourage|warn|implore)\b"
    r"|\bplease (?:\w+ )?(?:reconsider|do not|don't|seek|reach out|refrain|contact|consult"
    r"|be respectful|know that|remember|stop|avoid|call|talk to|rephrase)"
    r"|\b(?:it is|it's|remember,? it(?:'s| is)?)(?: also| always| \w+ly)? (?:important|crucial"
    r"|essential|vital|best|necessary|better|advisable|imperative)\b"
    r"|\byou (?:should|must|may want to|might want to|could|can)(?: \w+)? (?:seek|consult|contact"
    r"|reach out|report|speak|talk|never|not|call|reconsider)"
    r"|\bif you (?:are|'re|or|have|need|suspect|feel|know|believe|find yourself)\b[^.!?]{0,140}"
    r"\b(?:seek|consult|contact|reach out|report|helpline|hotline|lifeline|professional|therapist)"
    r"|^(?:talk|speak|reach out|turn|consult|contact)\b (?:to|with|an?|your)\b"
    r"|\bthere (?:is|are) (?:help|people who|resources|support|professionals|crisis)"
)
MORAL = re.compile(
    r"\b(?:instead|respect\w*|dignity|consequences|ethical(?:ly)?|unethical|illegal|legal(?:ly)?"
    r"|laws?|harm(?:ful|s|ing)?|safety|well-?being|violence|consent|privacy|discriminat\w+|hate"
    r"|prejudice|equal\w*|compassion|empathy|kindness|crisis|hotline|helpline|lifeline"
    r"|professional|therapist|counselor|authorities|police|responsib\w+|constructive|inclusi\w+"
    r"|misinformation|stereotyp\w+|moral\w*|(?:in)?appropriate\w*|peaceful\w*|healthy|support\w*"
    r"|seek\w*|victims?|protect\w*|crim(?:es?|inals?)|abuse|addict\w+|offen[cs]es?|dangerous\w*"
    r"|wrong|"
    r"criminal|rights)\b"
)
REDIRECTS = re.compile(
    r"\b(?:let's|let us|why don't we|how about we|perhaps we (?:can|could|should)|maybe we (?:can"
    r"|could|should)|shall we) (?:instead )?(?:talk|chat|discuss|change|focus|keep|stick|steer|move"
    r"|shift|turn|get back|redirect|use our|use this|use language)"
    r"|\b(?:i|we)(?: can|'d be| would be|'ll| will| could|'d)(?:,? however,?| still| also| gladly"
    r"| instead)? ?(?:\w+ )?(?:happy|glad|offer|help|assist|share|suggest|discuss|provide|explain"
    r"|talk|love|walk)\b[^.!?]{0,140}\b(?:instead|alternative\w*|other|different|safer?|legal\w*"
    r"|legitimate|constructive|else|defensive|lawful)\b"
    r"|\bwhat i can (?:do|offer|help|provide|share)\b"
    r"|\bhappy to (?:help|discuss|talk|assist|explain|answer)\b[^.!?]{0,80}\b(?:instead|other|else"
    r"|different)\b"
    r"|\b(?:is there|do you have|feel free to ask|if you have|if you need|if there(?:'s| is)|let me"
    r" know if|what else)\b[^.!?]{0,60}\b(?:else|other|another|different)\b"
)
# Sentences that speak of the request, the speaker or an offer, and hold no help themselves.
ABOUT_REQUEST = re.compile(
    r"^(?:i|i'm|i'd|we|my|as an? (?:ai|assistant|language)|sorry|please|let me know|feel free"
    r"|happy to"
    r"|if you(?:'d| would| want| have|'re| are| need)|instead|is there|would you"
    r"|do(?:ing)? (?:that|so|this)"
    r"|(?:this|that|such|these|those|it)(?:'s| is| are| would| could| can| may| might| goes"
    r"| involves"
    r"| violates| breaks| harms| puts| seems| sounds)?\b|however, i|but i|and i|so i|no\b|reason)\b"
    r"|\b(?:i'm|i'd|i'll|i am) (?:\w+ )?(?:happy|glad|here|able|sorry)\b|\byour request"
    r"|\byou're asking"
    r"|\byou asked|\b(?:assist|guidelines|policy)\b"
)
# Words by which a sentence turns to what can be said.
GIVING = re.compile(
    r"^(?:what i can (?:say|tell)|as (?:for|to)\b|in (?:general|short|brief|summary)\b|generally\b"
    r"|usually\b|typically\b|historically\b|broadly\b|as a rule\b|what (?:usually|often)\b"
    r"|the (?:usual|common|typical|main|general|proper|standard|legal) (?:\w+ )?(?:way|route"
    r"|approach"
    r"|steps?|signs?|method|advice)|here(?:'s| is| are)\b|for (?:a|an|the|your own|most)\b"
    r"|a (?:common|typical|usual) )"
    r"|^(?!(?:please|note|remember|reason|example|important|disclaimer)\b)[^:]{3,90}: ?[^:]{30,}"
)
BUT_GIVES = re.compile(
    r"\b(?:but|though|however|so),? (?:here(?:'s| is| are)|in general|generally|usually|broadly"
    r"|as a rule)"
    r"\b(?! (?:are|is)?(?: a)? ?(?:to help|resources|alternatives)).{40}"
)
TWO_PARTS = re.compile(r"\b(?:and|also|plus|as well as|y|und|et|en|och)\b|\?.+\?|[;；]|和|と")
SYMPATHY = re.compile(
    r"^(?:i(?:'m| am) (?:\w+ ){0,2}?sorry (?:to hear|that you|you)\b|i(?:'m"
    r"| am) (?:\w+ ){0,2}?"
    r"(?:concerned|worried)|it sounds like you|that sounds (?:\w+ )?(?:hard|painful|difficult"
    r"|tough)"
    r"|please (?:don't|do not) (?:hurt|harm|give up)|your (?:safety|life) matters|you matter"
    r"|if you(?:'re| are) (?:\w+ )?(?:struggling|thinking|having|feeling|in crisis|considering)"
    r"|i hear (?:you|how)|thank you for (?:trusting|telling|sharing))"
)
REFERS = re.compile(
    r"\b(?:reach(?:ing)? out|crisis|hotline|helpline|lifeline|988|741741|samaritans|emergency"
    r"|mental health professional|therapist|counsel\w+|trusted (?:friend|person|adult)|seek help)\b"
)
_WORD = re.compile(r"[a-z][a-z']*")
I_OR_WE = re.compile(r"\b(?:i|we|assistant|sorry|apologi[sz]e|apologies)\b")


def spoken_by_other(text: str, at: int) -> bool:
    """Whether the words from `at` on are quoted, conditional, reported, or a denied refusal."""
    before = text[max(0, at - 70) : at]
    if '"' in before and text.count('"', 0, at) % 2 == 1:
        return True
    found = _NOT_THE_SPEAKER.search(before)
    if not found or _SPEAKER_SAYS.search(before):
        return False
    # "How they hurt someone I won't discuss": the object stands first, the verb at the end.
    return not (_FRONTED.match(text) and _VERB_LAST.match(text, at))


def _refuses_help(match: re.Match[str]) -> bool:
    """Whether what cannot be done is an act of help, rather than an idiom or a plain limit."""
    rest = match.string[match.start("verb") :]
    if not _ACT_OF_HELP.match(rest) and (
        match[0].startswith("we ") or not FIRM.search(match[0]) or _NO_HELP.match(rest)
    ):
        return False
    if match[0][: match.start("verb") - match.start()].endswith(" be ") and not _TAKES_PART.match(
        rest
    ):
        return False  # a passive, or "cannot be certain"
    if not _of_speaker(match):
        return False  # a verb of the subject before it
    if match[0].startswith("we ") and not _TO_YOU.search(rest):
        return False  # the author's "we" of a proof or a report
    return not (
        _ADVISES_AGAINST.search(match[0])
        or _IDIOM.match(rest)
        or _JUDGES.match(rest)
        or _PROMOTES.match(rest)
        or _LIMIT.search(rest[:80])
    )


def _no_judgement(match: re.Match[str]) -> bool:
    return not _JUDGES.match(match.string, match.end() + 1)


def _of_speaker(match: re.Match[str]) -> bool:
    """Whether "and must decline" has the speaker as its subject."""
    joined = re.match(r"(?:and|but|so|thus|therefore|hence)\b", match[0])
    return not joined or bool(I_OR_WE.search(match.string, 0, match.start()))


def _not_advice(match: re.Match[str]) -> bool:
    return _of_speaker(match) and not _ADVICE.search(match[0]) and _no_judgement(match)


def _wrong_to_help(match: re.Match[str]) -> bool:
    return bool(match["speaker"] or match["help"] or _APOLOGISES.match(match.string))


def _bars_the_speaker(match: re.Match[str]) -> bool:
    return bool(_DESIGNED_NOT.search(match["rest"]))


# A refusal by one sentence alone: the rule's name, its pattern, the beginnings (four letters at
# most) of words of which the sentence holds at least one, and what else must hold of a match.
_RULES = (
    (
        "cannot_help",
        _CANNOT_HELP,
        "not cann can' cant won' wont unab neve coul woul must shou proh rest forb barr unwi hesi"
        " relu unau unco neit long shan prev prec",
        _refuses_help,
    ),
    ("will_not", _WILL_NOT, "cann can' won' will", _no_judgement),
    (
        "not_right_to",
        _NOT_RIGHT,
        "not isn' don' does woul shou can' cann neve neit inap unet irre wron ille immo harm unsa"
        " impo",
        _wrong_to_help,
    ),
    (
        "declines",
        _DECLINES,
        "decl refu refr abst pass rath pref not draw leav left stee opt sit stop skip bow say with"
        " away"
        " turn kept omit end endi deci opte"
        " hold keep stay opti elec avoi chos choo",
        _not_advice,
    ),
    ("not_doing_this", _NOT_DOING, "not", bool),
    ("does_not_help", _DOES_NOT, "not don' dont neve", bool),
    ("not_comfortable", _UNCOMFORTABLE, "not unco", _no_judgement),
    ("request_barred", _REQUEST_BARRED, "requ quer prom task inqu type kind sort", _no_judgement),
    (
        "not_something_i_do",
        _NOT_SOMETHING,
        "not isn' aren noth outs beyo more off",
        _no_judgement,
    ),
    ("cannot_be_given", _CANNOT_BE_GIVEN, "be", _no_judgement),
    (
        "against_policy",
        _POLICY,
        "agai viol cont conf brea inco not coun proh rest don' does prev disa keep won' goes forb",
        _no_judgement,
    ),
    (
        "only_other_help",
        _ONLY_HELP,
        "only sole excl stri limi outs beyo with out just spec rest conf",
        _no_judgement,
    ),
    ("changes_subject", _CHANGES, "let' let why how rath can coul shal may poss", _no_judgement),
    ("but_not_that", _BUT_NOT, "but", _no_judgement),
    (
        "says_no_at_start",
        _NO_AT_START,
        "decl refu deni requ not no hard let' afra out nope nice coun acce over conf priv clas pass"
        " are is thin than ask comm prom ques",
        _no_judgement,
    ),
    ("leaves_undone", _FRONTED_OBJECT, "what skip omit leav left decl", bool),
    (
        "says_no",
        _NO_OF_SPEAKER,
        "line stop off road plac path terr subj topi thin area poss opti avai far wher neit tied"
        " natu"
        " ask let brea viol agai me side enco urge advi mode vers way worl scen circ sett form"
        " answ no"
        " pass myse inte desi disa draw righ out isn' left decl leav rath",
        _no_judgement,
    ),
    (
        "refuses_request",
        _NO_TO_REQUEST,
        "tabl menu stay ques boun no-g some else supp avai poss perm decl refu with bloc remo off limi"
        " no fall",
        _no_judgement,
    ),
    (
        "designed_not_to",
        _DESIGNED,
        "prog desi trai boun requ obli buil made crea inst comm supp mean inte must have need stri"
        " aim adhe rema main foll prio prom stay",
        _bars_the_speaker,
    ),
)
_IMPERSONAL = {
    "changes_subject",
    "not_right_to",
    "request_barred",
    "cannot_be_given",
    "against_policy",
    "says_no_at_start",
    "refuses_request",
}
# Most rules need a speaker; a sentence without one of these words is read by the others alone.
_SPEAKS = frozenset(
    re.findall(
        r"\S+",
        "i i'm i'll i'd i've we we're we'll we'd my assistant model ai chatbot bot sorry apologies"
        " unfortunately cannot can't unable won't nope regrettably me",
    )
)


_RULES_BY_WORD: dict[str, list[int]] = {}


_SPOKEN_RULES_BY_WORD: dict[str, list[int]] = {}


for _number, (_name, _, _triggers, _) in enumerate(_RULES):
    for _trigger in _triggers.split():
        _SPOKEN_RULES_BY_WORD.setdefault(_trigger, []).append(_number)
        if _name in _IMPERSONAL:
            _RULES_BY_WORD.setdefault(_trigger, []).append(_number)


def refusal_in(text: str) -> tuple[str, int, int] | None:
    """The first refusal that the speaker makes in a sentence: rule, start, end."""
    words = set(_WORD.findall(text))
    spoken = not _SPEAKS.isdisjoint(words) or text.startswith(("not ", "can not "))
    rules = _SPOKEN_RULES_BY_WORD if spoken else _RULES_BY_WORD
    beginnings = rules.keys() & {word[:4] for word in words}
    if not beginnings:
        return None
    for number in sorted({number for beginning in beginnings for number in rules[beginning]}):
        name, pattern, _, holds = _RULES[number]
        for match in pattern.finditer(text):
            if holds(match) and not spoken_by_other(text, match.start()):
                return name, match.start(), match.end()
    return None


def apology_in(text: str, place: int) -> tuple[str, int, int] | None:
    """An apology at the start that goes on to condemn what was asked."""
    if place or not _APOLOGISES.match(text):
        return None
    match = CONDEMNS.search(text)
    return ("apologises_and_condemns", 0, match.end()) if match else None
