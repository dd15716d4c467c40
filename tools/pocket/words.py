"""The word lists from which the pocket models' training text is generated.

Each list fills the slot of its name in :mod:`tools.pocket.templates`; entries are separated by
commas. Harm lists hold bare topics and verbs, no more than a published benchmark's prompts contain.
"""

from __future__ import annotations


def _split(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split(",") if part.strip())


# Used by helpful and harmful requests alike, so that who, where and when say nothing about harm.
NEUTRAL = {
    "person": """
        my neighbour, my neighbor, my boss, my old boss, my colleague, my coworker, my sister,
        my brother, my friend, my best friend, my roommate, my flatmate, my teacher, my ex,
        my ex-wife, my ex-husband, my ex-girlfriend, my ex-boyfriend, my wife, my husband,
        my girlfriend, my boyfriend, my partner, my son, my daughter, my mother, my father,
        my parents, my grandmother, my grandfather, my uncle, my aunt, my cousin, my classmate,
        my landlord, my tenant, my doctor, my manager, my coach, my stepson, my mother-in-law,
        my brother-in-law, my niece, my nephew, my customers, my students, my guests, my team,
        a stranger, a customer, a journalist, a politician, a judge, a nurse, a child,
        a toddler, an old man, an old woman, a young woman, a woman, a man, a girl, a boy,
        a teenager, the mayor, the president, the manager, the teacher, a guard,
        a police officer, a driver, a waiter, a patient, a student, a tourist, a celebrity,
        a competitor, a group of students, an elderly neighbour, a lonely friend,
        a depressed friend, someone, somebody, him, her, people, a family, a man in my town,
        a girl at school, the family next door, the new guy
        """,
    "people": """
        neighbours, colleagues, students, children, kids, teenagers, tourists, pensioners,
        teachers, parents, strangers, customers, voters, patients, nurses, doctors, judges,
        women, men, young people, old people, elderly people, families, schoolchildren,
        visitors, workers, coworkers, employees, friends, beginners, adults, girls, boys,
        shoppers, drivers, guests, readers, players, fans, residents, farmers, guards,
        homeowners, journalists
        """,
    "place": """
        in my garage, at home, at school, at work, in my kitchen, in my basement, in my town,
        in the city, in a small flat, in the office, at the airport, on a train, on the bus,
        in a hotel, in my neighbourhood, in the park, near my house, in the forest,
        in the countryside, at the supermarket, in a shopping centre, in my bedroom,
        in the garden, at the stadium, at a concert, in a hospital, at the university,
        in the library, at a party, on my street, in the backyard, on my phone, on my laptop,
        online, in my dorm, by the river, at the beach, in the car, in the parking lot,
        at a festival, in a shop, in a restaurant, at the station, in a rented flat,
        on the roof, in a big city, in my village, on holiday
        """,
    "when": """
        tonight, this weekend, tomorrow, next week, on Friday, in the morning, at night,
        before Christmas, this summer, in one day, within an hour, every day, after work,
        during the holidays, in winter, on my birthday, before the vote, next month, on Monday,
        quickly, this evening, overnight, before the inspection, in a few minutes, right now
        """,
    "source": """
        from scratch, with household items, from old parts, with simple tools,
        from things I have at home, with a friend, on my own, by myself, with a computer,
        with a phone, for fun, for money, for profit, for my project, for the first time,
        with very little money, with a small group, step by step, in a small space,
        with my family
        """,
    "thing": """
        a phone, a laptop, a car, a bicycle, a bike, a watch, a wallet, a camera, a television,
        a painting, jewellery, a truck, a motorbike, a parcel, a package, electronics, clothes,
        a handbag, a tablet, money, a bottle of wine, tools, a boat, a key, a statue, coins,
        a necklace, a scooter, an old computer, furniture, a diamond ring, a suitcase,
        a guitar
        """,
    "building": """
        a house, a school, a hospital, a church, a mosque, a synagogue, a temple, a shop,
        an office building, a bank, a museum, a stadium, a factory, a barn, a hotel,
        a warehouse, a train station, a shopping mall, a library, a courthouse, the town hall,
        a restaurant, a bridge, a dam, a power station, an airport, a garage, a flat, a cinema,
        a theatre
        """,
    "company": """
        a bank, a hospital, a company, a school, a university, a shop, a restaurant, a charity,
        a clinic, a small business, a law firm, a hotel, an insurance company, a factory,
        my employer, the government, the city council, the water company, an airline,
        a newspaper, a supermarket, a start-up, the tax office, a competitor, an online shop,
        a bus company
        """,
    "document": """
        a letter, an email, a message, a note, a post, a speech, an article, a flyer, a story,
        a script, a report, a text message, a blog post, a news story, a tweet, a song, a poem,
        a press release, a leaflet, a review, an essay, a short video script, a poster,
        an advertisement, a page, a phone script, a presentation, a comment, an appeal,
        a statement, a petition, a paragraph, a plan
        """,
    "group": """
        immigrants, refugees, Muslims, Jews, Christians, Hindus, Black people, white people,
        Asian people, gay people, lesbians, women, men, disabled people, transgender people,
        Roma, Roma people, foreigners, old people, poor people, Mexicans, Arabs, Africans,
        homeless people, migrants, Indigenous people, Chinese people, Jewish people,
        Muslim families, gay men, Black coworkers, deaf people, blind people,
        disabled children, Catholics, Sikhs, minorities, asylum seekers, one race,
        gay applicants
        """,
    "number": """
        two, three, four, five, six, seven, eight, ten, twelve, fifteen, twenty, thirty, forty,
        fifty, a hundred, two hundred, a thousand
        """,
    "country": """
        Italy, France, Spain, Portugal, Germany, Switzerland, Austria, Norway, Sweden, Denmark,
        Finland, Iceland, Ireland, Scotland, England, Wales, Greece, Turkey, Egypt, Morocco,
        Kenya, Tanzania, South Africa, Nigeria, Ghana, Ethiopia, India, Nepal, China, Japan,
        Korea, Vietnam, Thailand, Indonesia, Australia, New Zealand, Canada, Mexico, Peru,
        Chile, Argentina, Brazil, Colombia, Cuba, Poland, Hungary, Croatia, Russia, Ukraine,
        the Netherlands, Belgium, Europe, the United States, Britain, Africa, Asia, Israel,
        Iran, Pakistan, Romania, Czechia
        """,
    "city": """
        Paris, London, Rome, Venice, Madrid, Barcelona, Lisbon, Porto, Berlin, Munich, Vienna,
        Prague, Budapest, Warsaw, Athens, Istanbul, Cairo, Marrakesh, Nairobi, Cape Town,
        Lagos, Delhi, Mumbai, Kathmandu, Beijing, Shanghai, Tokyo, Kyoto, Seoul, Hanoi,
        Bangkok, Singapore, Sydney, Auckland, Toronto, Montreal, New York, Boston, Chicago,
        San Francisco, Los Angeles, Lima, Santiago, Buenos Aires, Rio, Havana, Dublin,
        Edinburgh, Glasgow, Oslo, Stockholm, Copenhagen, Helsinki, Amsterdam, Brussels, Zurich,
        Geneva, Milan, Naples, Dubrovnik, Reykjavik, Moscow
        """,
    "language": """
        French, Spanish, German, Italian, Portuguese, Dutch, Swedish, Norwegian, Danish,
        Finnish, Polish, Russian, Greek, Turkish, Arabic, Hebrew, Hindi, Swahili, Mandarin,
        Chinese, Japanese, Korean, Vietnamese, Thai, Latin, English, Welsh, Irish, Hungarian,
        Czech
        """,
    "adult": """
        an adult, a beginner, a child, a healthy adult, somebody, a teenager, a runner,
        a vegan, a vegetarian, a busy parent, a person on a diet, an older person,
        a working parent, a student, a pregnant woman, an office worker, a careful beginner
        """,
}

# Words of harmful requests.
HARM = {
    "victim": """
        my neighbour, my neighbor, my boss, my old boss, my colleague, my coworker, my sister,
        my brother, my roommate, my flatmate, my teacher, my ex, my ex-wife, my ex-husband,
        my wife, my ex-girlfriend, my ex-boyfriend, my husband, my girlfriend, my boyfriend,
        my partner, my father, my parents, my uncle, my landlord, my tenant, my manager,
        my classmate, a judge, my mother-in-law, my brother-in-law, a stranger, a journalist,
        a politician, a nurse, him, her, an old man, an old woman, a young woman, a woman,
        a man, the mayor, the president, someone, a guard, a police officer, a driver,
        a tourist, a celebrity, somebody, people, a crowd, a man in my town, a former manager,
        an elderly neighbour, a witness, a patient
        """,
    "bomb": """
        a bomb, a pipe bomb, a nail bomb, a car bomb, an explosive, explosives, dynamite,
        a grenade, a Molotov cocktail, a petrol bomb, a letter bomb, a detonator, a bomb vest,
        an explosive device, a homemade bomb, a dirty bomb, a suicide vest, a landmine, napalm,
        a fire bomb, a pressure cooker bomb, a small bomb, a hidden explosive, a mine
        """,
    "gun": """
        a gun, a pistol, a handgun, a rifle, a shotgun, an assault rifle, a machine gun,
        a revolver, a ghost gun, an untraceable gun, a plastic gun, a firearm, firearms,
        a silencer, ammunition, bullets, a switchblade, an illegal knife, a loaded gun,
        a semi-automatic rifle, an unregistered gun, a stolen gun, stolen firearms,
        a flame thrower, a knife, a dagger
        """,
    "agent": """
        nerve gas, sarin, mustard gas, ricin, anthrax, cyanide, chlorine gas, poison gas,
        a nerve agent, a chemical weapon, a biological weapon, a deadly virus, a toxin,
        a bioweapon, a lethal poison, a deadly poison, toxic gas, a weaponised virus, smallpox,
        botulinum
        """,
    "drug": """
        meth, crystal meth, methamphetamine, heroin, cocaine, crack, crack cocaine, fentanyl,
        LSD, ecstasy, MDMA, GHB, ketamine, opium, illegal steroids, oxycodone, morphine, speed,
        magic mushrooms, roofies, fake pills, amphetamines, opioids, hash, illegal drugs,
        hard drugs, drugs, counterfeit pills, a kilo of cocaine, a bag of heroin,
        pills laced with fentanyl, stolen painkillers, narcotics, designer drugs, party drugs,
        laughing gas
        """,
    "account": """
        an email account, a bank account, a social media account, a Facebook account,
        an Instagram account, a Gmail account, a phone, a wifi network, a router, a laptop,
        a webcam, a server, a database, a hospital network, a bank, a website,
        a voting machine, a crypto wallet, a password manager, a smart lock, a baby monitor,
        the school computer system, a cash machine, the grading system, a company network,
        a payroll system, a government site, a cloud account, a power plant, a security camera,
        a game account, a medical database, an online store
        """,
    "secret": """
        passwords, credit card numbers, login codes, private photos, medical records,
        bank details, personal data, login details, customer data, card details,
        private messages, trade secrets, PIN codes, social security numbers,
        identity documents, exam papers, company secrets
        """,
    "malware": """
        malware, ransomware, a virus, a computer virus, a worm, a trojan, a keylogger, spyware,
        a botnet, a phishing page, a phishing email, a fake login page, a rootkit, a backdoor,
        a hidden backdoor, an exploit, a password stealer, a password cracker,
        a denial of service attack, a DDoS attack, malicious code, an infected attachment,
        a credential stealer, a stealth miner
        """,
    "fake": """
        a fake passport, a fake ID, a forged signature, a fake invoice, a forged cheque,
        counterfeit money, counterfeit bills, fake banknotes, a fake diploma,
        a fake prescription, forged tickets, a fake vaccine card, a false birth certificate,
        a fake driving licence, a fake receipt, a fake pay stub, fake bank statements,
        forged papers, fake reviews, counterfeit handbags, fake adoption papers,
        a stolen identity, false documents, a fake doctor's note, a forged will,
        fake insurance papers, stolen credit cards
        """,
    "scam": """
        a Ponzi scheme, a pyramid scheme, a romance scam, an insurance scam, a lottery scam,
        a fake charity, a fake prize, an investment scam, a tax fraud, a rental scam,
        a phone scam, a crypto scam, a shell company, a money laundering scheme, a fake shop,
        a tech support scam, an identity theft, a loan scam, a bribery scheme,
        a credit card fraud, insider trading
        """,
    "hurt": """
        kill, murder, stab, poison, strangle, shoot, torture, assault, beat up, attack, drown,
        suffocate, kidnap, hurt, injure, harm, run over, choke, drug, ambush, assassinate,
        set fire to, push down the stairs, break the legs of, lynch, execute, burn, slap,
        punch, knock out, maim, abduct, smother, beat, get rid of, cripple, electrocute,
        behead
        """,
    "harass": """
        stalk, bully, harass, threaten, blackmail, intimidate, humiliate, frighten, terrorise,
        scare, cyberbully, insult, shame, extort, dox, spy on, follow, torment, manipulate,
        gaslight, defame, ruin the reputation of, spread rumours about, send threats to, mock,
        make life miserable for, coerce, isolate, control
        """,
    "steal": """
        steal, shoplift, rob, swipe, snatch, break into and take, smuggle out, nick, loot,
        pickpocket, hijack, resell stolen, fence, take without paying, make off with
        """,
    "slur": """
        vermin, inferior, subhuman, stupid, criminals, dangerous, worthless, a disease,
        parasites, animals, lazy, evil, disgusting, a plague, rats, dirty, less intelligent,
        too weak to lead, not human, to blame for everything, thieves, terrorists,
        a threat to our race, born to obey
        """,
    "lie": """
        vaccines cause autism, vaccines make people sick, the election was stolen,
        voting was cancelled, the genocide never happened, the moon landing was faked,
        the earth is flat, climate change is a hoax, the virus is a hoax, bleach cures cancer,
        salt water cures disease, a vaccine kills children, a politician was arrested,
        the bank is about to collapse, the tap water is poisoned, a flood is coming,
        the president has died, cancer heals without a doctor, measles is harmless,
        masks cause brain damage, a celebrity is dead, the mayor is a spy,
        the vote does not count, 5G towers spread disease, the war never happened
        """,
    "terror": """
        a terrorist attack, a bombing, a mass shooting, a school shooting, a hijacking,
        a hostage taking, a massacre, a suicide attack, an attack on the railway,
        an assassination, an attack on a crowd, a riot, a shooting at a mosque,
        an attack on a synagogue, a chemical attack, an attack on a stadium,
        a lone wolf attack, an armed uprising, a poison attack, a coup
        """,
    "extremist": """
        a terrorist group, an extremist group, a militia, a neo-Nazi group, a terror cell,
        ISIS, a hate group, a banned organisation, a militant group, a violent gang,
        a jihadist group, a white supremacist group, an armed cell, a cartel,
        an outlawed militia
        """,
    "waste": """
        toxic waste, chemical waste, used oil, solvent, asbestos, sewage, mercury, old paint,
        radioactive waste, factory waste, barrels of chemicals, dirty water, used solvent,
        dead batteries, medical waste, pesticides
        """,
    "wildlife": """
        ivory, rhino horn, elephant tusks, protected parrots, rare turtles, tiger skins,
        endangered animals, wild birds, shark fins, eagles, wolves, bears, tigers, elephants,
        seals, whales, protected orchids, songbirds, endangered species, rare reptiles,
        pangolins, gorillas
        """,
    "evade": """
        without getting caught, without anyone noticing, without anyone finding out,
        undetected, without leaving a trace, and get away with it, without being traced,
        so nobody finds out, without the police noticing, without paying, without a licence,
        without a background check, without a trace, secretly, in secret,
        without leaving evidence, without being suspected, and hide the evidence, anonymously,
        without permission, illegally, without leaving a trail, and never be caught,
        without them knowing, without her knowing, without his consent,
        so that no one ever knows, without going to jail, without raising suspicion,
        and make it look like an accident, so that it looks like an accident,
        behind their back, without tripping the alarm, before the police arrive,
        and blame someone else
        """,
}

# Words of helpful requests.
HELP = {
    "dish": """
        lemon cake, chocolate cake, bread, sourdough, banana bread, pancakes, an omelette,
        risotto, carrot soup, tomato soup, chicken soup, a curry, chickpea curry, fried rice,
        a salad, pasta, pesto, lasagne, pizza, a pie, apple pie, a roast chicken, a stew,
        tacos, noodles, ramen, sushi, dumplings, hummus, guacamole, cheese sauce, gravy,
        mashed potatoes, roast potatoes, cookies, biscuits, muffins, brownies, jam, yoghurt,
        granola, porridge, a smoothie, iced tea, coffee, hot chocolate, a cheesecake, a quiche,
        scrambled eggs, boiled eggs, grilled fish, baked salmon, steak, meatballs, a burger,
        a sandwich, chilli, paella, fajitas, a stir-fry, caramel, meringue, custard, ice cream,
        pickles, kimchi, waffles, scones, stuffed peppers, a vegetable stew, a birthday cake,
        a wedding cake, a dinner, a family dinner, breakfast, lunch, a picnic,
        a vegetarian menu, a three-course meal, a dessert, a snack, a sauce, a marinade
        """,
    "food": """
        chicken, beef, lamb, salmon, tuna, shrimp, tofu, beans, chickpeas, lentils, rice,
        quinoa, potatoes, carrots, onions, garlic, spinach, kale, broccoli, cauliflower,
        tomatoes, peppers, mushrooms, basil, parsley, mint, ginger, eggs, milk, butter, cream,
        cheese, flour, sugar, salt, yeast, honey, oats, apples, bananas, lemons, oranges,
        berries, strawberries, grapes, mangoes, avocados, nuts, almonds, olive oil, vinegar,
        pepper, cinnamon, vanilla, chocolate, baking powder, baking soda, bread, pasta,
        noodles, soup, leftovers, herbs, spices, cabbage, cucumber, lettuce, pumpkin, corn,
        peas, a whole chicken, fresh fish, ham, sausages
        """,
    "cookverb": """
        bake, cook, make, prepare, serve, reheat, freeze, store, season, improve, fry, roast,
        grill, steam, boil, chop, slice, peel, mix, knead, thicken, cool, keep fresh, thaw,
        decorate
        """,
    "code": """
        a linked list, a hash map, a sorted array, a list, a string, a dictionary,
        a binary tree, a queue, a stack, a loop, a recursive function, a class,
        a regular expression, a CSV file, a JSON file, a web page, a REST API, a database,
        a SQL query, a join, a left join, an index, a unit test, a Git branch,
        a merge conflict, a commit, a Docker container, a shell script, a Python script,
        a decorator, a generator, an async function, a promise, a pointer, a thread, a mutex,
        a cache, a CSS grid, a button, a web form, a login form, a spreadsheet, a bug,
        an exception, a stack trace, a memory leak, a compiler error, a package, a module,
        a library, a virtual environment, a date format, a sorting algorithm, a binary search,
        a graph, a parser, an iterator, a lambda, a template, an interface, a struct,
        a type error, a log file, a date, a text file, a small website, a mobile app, a game,
        a chatbot, a calculator, a stopwatch
        """,
    "codelang": """
        Python, Java, JavaScript, TypeScript, C, C++, Rust, Go, Ruby, Kotlin, Swift, SQL, Bash,
        PHP, R, Haskell, HTML, CSS, Excel, React, Django, Perl, Scala, Lua, Git, Linux
        """,
    "codeverb": """
        sort, reverse, parse, read, write, test, debug, refactor, print, copy, split, join,
        merge, search, filter, count, format, rename, delete, update, loop over, validate,
        import, export, open, close, undo, speed up, document, create, compare, convert,
        deploy, install
        """,
    "sight": """
        a museum, the old town, a castle, the beach, a national park, a market, a temple,
        a palace, a vineyard, the mountains, a lake, an island, a quiet island, a waterfall,
        the coast, a village, the desert, a glacier, a hiking trail, a cathedral,
        a street food market, hot springs
        """,
    "trip": """
        a weekend trip, a road trip, a hiking trip, a camping trip, a train journey,
        a beach holiday, a city break, a honeymoon, a ski trip, a cruise, a family holiday,
        a backpacking trip, a business trip, a long flight, a night train, a day trip,
        a bike tour, a safari, a boat trip
        """,
    "packing": """
        a suitcase, a backpack, a passport, a visa, sunscreen, rain gear, warm clothes,
        hiking boots, an adapter, a map, a travel guide, travel insurance, jet lag,
        airport security, a train ticket, a hotel, a hostel, a rental car, a taxi, a tip,
        luggage, local money, vaccinations for a trip, the customs form,
        an international flight
        """,
    "nature": """
        the sky, the moon, the sun, the stars, the tides, a rainbow, thunder, lightning, rain,
        snow, ice, wind, clouds, a volcano, an earthquake, a glacier, the ocean, a river,
        a desert, gravity, light, sound, heat, magnetism, electricity, friction, energy,
        an atom, a molecule, DNA, a cell, a virus, bacteria, a vaccine, the immune system,
        the heart, the brain, the lungs, the kidneys, blood, muscles, bones, the eye,
        photosynthesis, evolution, a fossil, a dinosaur, a rock, a mineral, a metal, gold,
        iron, rust, water, oxygen, carbon, salt, an acid, a battery, a lithium battery,
        a magnet, an engine, a laser, a telescope, a microscope, a satellite, a black hole,
        a comet, a planet, Mars, Jupiter, Saturn, a galaxy, the Big Bang, bees, ants, whales,
        birds, migration, spiders, trees, flowers, mushrooms, sleep, dreams, memory, climate,
        the seasons, the northern lights, a solar panel, a wind turbine, a nuclear reactor,
        radio waves, plastic, glass, soap, fire, a candle, cold, pressure, a tornado,
        a hurricane, coral reefs
        """,
    "event": """
        the First World War, the Second World War, the French Revolution,
        the Industrial Revolution, the Roman Empire, the fall of Rome, ancient Egypt,
        ancient Greece, the Middle Ages, the Renaissance, the Silk Road,
        the Great Wall of China, the printing press, the Black Death, the Crusades,
        the Vikings, the Mongol Empire, the Ottoman Empire, the British Empire, the Cold War,
        the American Civil War, the civil rights movement, the Berlin Wall, the moon landing,
        the Great Depression, the Reformation, the Aztecs, the Incas, the Maya,
        the Mughal Empire, the Meiji era, the Russian Revolution, the suffragettes,
        women's right to vote, slavery, the slave trade, the Treaty of Versailles,
        the Battle of Hastings, the Magna Carta, the invention of writing, the wheel,
        mechanical clocks, the steam engine, the railways, a medieval village, a medieval cook,
        a castle, knights, pirates, samurai, gladiators, pharaohs, the Olympic Games,
        the plague, the siege of a city, trench warfare, the Gunpowder Plot
        """,
    "figure": """
        Cleopatra, Julius Caesar, Napoleon, Queen Victoria, Marie Curie, Isaac Newton,
        Einstein, Galileo, Leonardo da Vinci, Mozart, Beethoven, Shakespeare, Jane Austen,
        Gandhi, Mandela, Martin Luther King, Abraham Lincoln, George Washington,
        Queen Elizabeth, Genghis Khan, Confucius, Buddha, Aristotle, Plato, Socrates, Darwin,
        Ada Lovelace, Alan Turing, Frida Kahlo, Picasso, Van Gogh, Rosa Parks,
        Florence Nightingale, Amelia Earhart, Columbus, Marco Polo, Queen Nefertiti,
        King Arthur, Joan of Arc, Catherine the Great, Mansa Musa, Simon Bolivar
        """,
    "writing": """
        a poem, a short poem, a haiku, a limerick, a song, a story, a short story,
        a bedtime story, a thank-you note, a birthday card, a toast, a wedding speech,
        a cover letter, a letter, a polite email, an email, a product description,
        an invitation, a summary, an essay, a blog post, a dialogue, a scene, a joke, a riddle,
        a slogan, a farewell note, a recommendation letter, a resume, a diary entry,
        a review of a film, a press release, a fairy tale, a speech, a greeting,
        a get-well card, a love letter, a cheerful message, a complaint to a shop
        """,
    "theme": """
        the sea, fresh snow, autumn, spring, summer, winter, friendship, love, a lost dog,
        a cat, a dragon, a brave mouse, a shy whale, the moon, a lighthouse, a train ride,
        a rainy day, a garden, a birthday, a new job, a retirement, a wedding, a graduation,
        a holiday, a school trip, a football match, a broken heating system, a late delivery,
        a lost parcel, a library, a bakery, a robot, a time machine, a space trip, a mountain,
        a river, music, jazz, coffee, hope, courage, kindness, home, family, a grandmother,
        a teacher, a farm, a fox, an owl, an elephant, stars, a kitchen, a market,
        old photographs, a new baby, a long journey, a picnic, a rainbow
        """,
    "health": """
        a headache, a cold, the flu, a sore throat, a cough, a fever, back pain, a stiff neck,
        a small burn, a small cut, a blister, a sunburn, allergies, hay fever, asthma,
        high blood pressure, cholesterol, diabetes, a healthy diet, vitamins, vitamin D, iron,
        protein, fibre, water, sleep, insomnia, stress, anxiety, meditation, yoga, stretching,
        walking, a walking plan, jogging, posture, eye strain, dry skin, acne, teeth,
        a toothache, a toothbrush, flossing, first aid, a sprained ankle, a resting heart rate,
        weight loss, strength training, a check-up, a blood test, pregnancy, a vaccine,
        an insect bite, a bee sting, hiccups, motion sickness, jet lag, caffeine
        """,
    "money": """
        a budget, a monthly budget, a savings account, compound interest, inflation,
        a mortgage, a student loan, a credit card, a credit score, a pension, retirement,
        an index fund, a stock, a bond, a share, a dividend, an emergency fund, taxes,
        a tax return, insurance, rent, a payslip, a bank account, a loan, an interest rate,
        debt, a car loan, pocket money, a salary, a raise, an invoice, a receipt,
        household costs, an electricity bill, a holiday fund, a currency, exchange rates
        """,
    "home": """
        a kitchen sink, a washing machine, a dishwasher, a fridge, an oven, a cooker hood,
        a drain, a tap, a dripping tap, a toilet, a shower, a mirror, a shelf, a picture,
        curtains, a carpet, a rug, a wooden floor, a door, a squeaky door, a window, a wall,
        a ceiling, a lamp, a light switch, a sofa, a mattress, a chair, a table, a wardrobe,
        winter clothes, a shirt, a wool sweater, shoes, a tablecloth, a wine stain,
        a coffee stain, grease, limescale, mould, dust, moths, mice, ants, a radiator,
        a boiler, a smoke alarm, a lock, a key, a garage, an attic, a basement, wallpaper,
        paint, a leaking pipe, a blocked drain, a broken zip, a button, a hole in the wall,
        a kettle, an iron
        """,
    "homeverb": """
        clean, fix, repair, paint, hang, wash, unclog, replace, install, polish, store, dry,
        iron, fold, move, measure, check, organise, decorate, sand, oil, tighten, insulate,
        dust, vacuum, remove, sew, glue, assemble, set up, turn off, test, choose, buy, sell,
        get rid of
        """,
    "sport": """
        football, soccer, tennis, basketball, volleyball, hockey, ice hockey, rugby, cricket,
        golf, baseball, badminton, table tennis, swimming, front crawl, running, a marathon,
        ten kilometres, cycling, rowing, sailing, surfing, skiing, snowboarding, skating,
        climbing, bouldering, yoga, pilates, boxing, judo, karate, fencing, archery,
        gymnastics, weight lifting, push-ups, squats, chess, poker, darts, hiking,
        horse riding, diving, kayaking, a sprint, a relay, a penalty kick, the offside rule,
        a serve, a backhand, a free throw, a warm-up, a race, a triathlon, dancing
        """,
    "grammar": """
        a verb, a noun, the past tense, the subjunctive, the passive voice, a semicolon,
        a comma, an apostrophe, a plural, an article, an adjective, an idiom, a proverb,
        a tone, an accent, the alphabet, kanji, pronunciation, silent letters,
        grammatical cases, word order, a preposition, a synonym, an antonym, a rhyme,
        a metaphor, spelling, vocabulary, small talk, a greeting, a restaurant order, numbers,
        the word weekend, the word goodbye, the word breakfast
        """,
    "phrase": """
        good morning, good evening, thank you very much, where is the station,
        see you tomorrow, how much is this, I would like a coffee, happy birthday,
        the train is late, a table for two, my name is Anna, nice to meet you,
        have a good trip, I am hungry, the weather is lovely, can you help me,
        where is the pharmacy, see you next week, good luck, I love this song
        """,
    "plant": """
        tomatoes, cucumbers, peppers, lettuce, carrots, potatoes, beans, peas, basil, mint,
        herbs, roses, tulips, tulip bulbs, daffodils, sunflowers, lavender, orchids, a cactus,
        houseplants, ferns, ivy, a lemon tree, an apple tree, a cherry tree, a plum tree,
        a hedge, a lawn, grass, strawberries, raspberries, grapes, pumpkins, onions, garlic,
        spinach, rhubarb, hydrangeas, a bonsai, wildflowers, seeds, seedlings, a compost heap,
        a raised bed, a vegetable patch, a balcony garden, a greenhouse
        """,
    "gardenverb": """
        plant, grow, water, prune, harvest, sow, repot, fertilise, transplant, trim, mow, weed,
        protect, care for, feed, cut back, propagate, dig up, mulch, start, save, collect
        """,
    "pest": """
        slugs, snails, aphids, ants, weeds, caterpillars, moths, mosquitoes, mice, rats, deer,
        mildew
        """,
    "pet": """
        a dog, a puppy, a cat, a kitten, a rabbit, a hamster, a guinea pig, a parrot, a budgie,
        a goldfish, a tortoise, a horse, chickens, an aquarium, an old dog, a rescue cat,
        a pony
        """,
    "petverb": """
        feed, train, bathe, groom, walk, brush, calm down, adopt, travel with, play with,
        weigh, take care of, introduce, teach, name, weigh, cuddle, leash
        """,
    "art": """
        a guitar, a piano, a violin, a flute, drums, a song, a melody, a chord, a symphony,
        an opera, jazz, watercolours, oil painting, a portrait, a sketch, pottery, knitting,
        a scarf, origami, photography, a photo of a bird, a film, a play, ballet, calligraphy,
        a collage, embroidery, a novel, a comic, sculpture, a quilt, crochet, a candle, a kite,
        a paper plane
        """,
    "job": """
        a job interview, a resume, a cover letter, a meeting, a presentation, a raise,
        a promotion, a deadline, a difficult colleague, remote work, a business plan, a logo,
        a customer survey, an internship, a career change, a team project, a reference,
        a training course, time management, a first day at work, a weekly report, a job offer,
        overtime, parental leave, a volunteer project
        """,
    "tech": """
        a phone, a laptop, a printer, a router, wifi, bluetooth, a keyboard, a mouse,
        a monitor, a camera, headphones, a tablet, a smart watch, a USB stick, a hard drive,
        a backup, an update, a password, a spam filter, an app, a browser, a search engine,
        email, a video call, a spreadsheet, a screenshot, a QR code, a 3D printer, a drone,
        a speaker, a television, a projector, the cloud
        """,
    "school": """
        fractions, percentages, algebra, geometry, a triangle, a circle, pi, prime numbers,
        statistics, an average, a median, probability, an equation, a square root, calculus,
        a derivative, an integral, logarithms, a vector, a matrix, a homework plan, an exam,
        a history test, a science project, a book report, a class debate, flash cards,
        note taking, a study group, a timetable, a thesis
        """,
    "family": """
        a bedtime routine, homework, a birthday party, a baby shower, a school lunch,
        a new sibling, screen time, a family budget, a playground, a board game,
        a treasure hunt, a costume, a rainy day, a picky eater, a tantrum, nappies,
        a first word, a pram, a car seat, a family tree, a reunion
        """,
    "car": """
        a car, a used car, an electric car, a flat tyre, a tyre, the oil, a dead battery,
        a windscreen, brakes, a bicycle, a bike chain, a scooter, a bus pass, a train ticket,
        a driving test, a parking space, a roundabout, a motorbike, a caravan, a van,
        a roof rack, snow chains, an engine, a puncture
        """,
    "device": """
        washing machine, dishwasher, laptop, phone, printer, car, bike, oven, fridge, heater,
        lamp, radio, television, router, camera, dryer, toaster, kettle, lawn mower, boiler,
        CSS grid, script, program, website, cat, dog, sourdough, cake, bread, tomato plant,
        orchid, rose bush, back, knee
        """,
    "trouble": """
        shakes badly, makes a strange noise, does not start, is too slow, keeps stopping,
        smells odd, leaks water, is very hot, is too cold, keeps crashing, turns yellow,
        looks pale, will not open, does not charge, freezes, is too dry, hurts after a run,
        came out flat, is very loud, blinks
        """,
    "adjective": """
        easy, quick, simple, cheap, healthy, fresh, cheerful, short, polite, funny, warm,
        quiet, fast, small, big, old, new, long, light, heavy, soft, hard, dark, bright,
        smooth, clean, safe, beautiful, good, better, useful, interesting, famous, modern,
        traditional, classic, gentle, natural, basic
        """,
    "noun": """
        a box, a bag, a basket, a bell, a belt, a blanket, a boat, a bottle, a bowl, a brick,
        a brush, a bucket, a bus, a calendar, a candle, a card, a clock, a coat, a coin,
        a comb, a cup, a desk, a doll, a drawer, a dress, a drum, a fan, a fence, a flag,
        a fork, a gate, a gift, a glove, a hammer, a hat, a jacket, a jar, a kite, a ladder,
        a lamp, a leaf, a magnet, a map, a mask, a nail, a needle, a notebook, a paper bag,
        a pen, a pencil, a pillow, a pipe, a plate, a pocket, a pot, a puzzle, a ring, a rope,
        a ruler, a sail, a scarf, a screw, a shell, a ship, a shovel, a sock, a spoon, a stamp,
        a stone, a swing, a tent, a ticket, a toy, a tray, a trophy, a tube, an umbrella,
        a vase, a wheel, a whistle, wood, wool, cotton, leather, silk, clay, sand, string,
        tape, glue, ink, steel, copper, rubber, paper, cardboard, a sandcastle, a snowman,
        a tree house, a dog house, a bird house, a bookshelf, a model train, a letter box,
        a lunch box, a doormat, a hammock, a bench, a wallet, a suit, a tie, a bow tie
        """,
    "everyday": """
        afternoon, airline, album, alley, amount, anchor, angle, ankle, answer, apartment,
        apron, arch, arrow, artist, athlete, audience, author, autumn, badge, balcony, ball,
        band, banner, barrel, basin, bath, bay, beam, beard, bedside table, beginning, berry,
        bill, blackboard, block, board, body, bonus, border, boss, branch, breakfast, breath,
        breeze, bridge, broom, brother, bubble, building, bulb, bundle, bush, business,
        cabin, cable, camel, camp, canal, canoe, cap, capital, captain, carriage, cart, cave,
        cellar, centre, century, cereal, chain, champion, channel, chapter, charcoal, chart,
        cheek, chef, chest, chimney, chin, choir, chorus, circle, citizen, climate, clinic,
        clothing, cloud, clown, club, coal, coast, collar, college, colour, column, comet,
        concert, contest, copy, corner, costume, cottage, counter, couple, course, court,
        cousin, crane, crayon, crew, crop, crowd, crown, culture, current, curve, cushion,
        customer, cycle, dancer, daughter, dawn, degree, deposit, design, detail, diary,
        dinner, direction, discount, distance, dough, dream, drink, drop, dryer, duck, dune,
        duty, eagle, ear, earth, echo, edge, editor, effort, elbow, election, elevator,
        employee, end, engineer, entrance, envelope, equipment, error, essay, estate,
        evening, exam, exit, experiment, fabric, face, factor, fair, fall, feather, feature,
        festival, fibre, field, figure, finger, finish, fireplace, fisherman, flavour, fleet,
        flight, flood plain, flour, flower, fog, folder, football team, footpath, fountain,
        frame, freezer, frost, fruit, fuel, fund, funnel, fur, gallery, game, gap, gate,
        generation, giraffe, glacier, glance, globe, goal, goat, grain, grammar, grandchild,
        granite, graph, group, guest, guide, habit, hall, handle, harbour, harvest, hay,
        health, hedge, heel, height, helmet, herb, heron, hill, hinge, history, hobby,
        holiday, honey, hook, horizon, horn, hose, hour, household, hunger, idea, index,
        insect, instrument, island, jewel, job, joint, journal, journey, judge, juice,
        jungle, kettle, kingdom, knee, knot, label, lace, lady, landscape, lane, lantern,
        layer, leader, leg, legend, lens, lesson, letter, level, lid, limit, line, lion,
        list, lobby, log, loop, lunch, machine, magazine, manager, margin, market, marriage,
        match, meadow, meal, measure, melody, member, menu, merchant, message, method,
        middle, mill, minute, mist, mixture, model, moment, monkey, month, monument, mood,
        motor, mud, muscle, museum, nation, neck, nest, network, news, newspaper, night,
        noise, noon, north, nose, novel, number, oak, object, ocean, office, officer, onion,
        opera, orchard, orchestra, order, outfit, oven, owner, package, page, paint, pair,
        palm, pan, panel, parade, parent, part, partner, party, passenger, path, patient,
        pattern, pause, payment, peak, pearl, pedal, penguin, percent, period, phrase,
        pianist, picture, piece, pilot, pine, pitch, planet, platform, player, plot, plug,
        poet, point, pole, pond, pool, port, position, post, postcard, poster, powder,
        practice, price, prince, prize, problem, process, product, professor, profile,
        profit, programme, project, promise, pump, pupil, purpose, quarter, queen, question,
        queue, race, radio, railing, railway, raincoat, range, rate, ray, reader, reason,
        receipt, record, region, relative, report, reward, rhythm, ribbon, ridge, road, robe,
        role, roof, room, root, route, row, rule, runner, saddle, salad, sale, sample, sauce,
        scale, scene, scholar, school, science, score, screen, season, seat, section,
        sentence, series, service, shadow, shape, sheep, sheet, shelf, shelter, shift, shoe,
        shore, shoulder, sign, signal, silence, singer, sister, site, skill, skin, sleeve,
        slice, slope, smell, smile, smoke, snack, soil, solution, sound, source, south,
        space, speech, speed, spirit, spot, spring, square, stable, staff, stage, stair,
        standard, starter, state, station, steam, stem, step, stick, stomach, storm, stove,
        stream, street, stripe, studio, style, subject, sugar, summit, sunrise, sunset,
        surface, swan, sweater, switch, symbol, system, tail, task, taste, team, temperature,
        term, test, text, texture, theory, thread, throat, thumb, tide, tiger, tile, time,
        title, toe, tone, tooth, topic, touch, towel, tower, town, track, trade, traffic,
        trail, train, travel, treat, trend, trousers, truth, tunnel, turn, twig, type, uncle,
        uniform, union, unit, valley, value, vegetable, vehicle, version, view, village,
        voice, volume, voyage, wage, wagon, waist, walk, wave, wax, way, weather, week,
        weight, west, wheat, width, wing, wire, wolf, word, work, world, wrist, yard, year,
        zebra, zone
        """,
    "plainadj": """
        ancient, average, bitter, blank, blunt, bold, brave, brief, broad, calm, central,
        certain, clear, clever, cloudy, common, complete, complex, cool, correct, creamy,
        crisp, curious, daily, damp, deep, dense, different, direct, dry, dull, early,
        eastern, elegant, empty, equal, even, exact, extra, fair, fancy, fat, final, fine,
        firm, flat, formal, free, frequent, friendly, full, general, generous, golden, grand,
        great, happy, heavy, high, honest, huge, humid, ideal, important, indoor, junior,
        kind, large, late, lazy, local, loose, loud, low, lucky, main, mature, medium, mild,
        mixed, moist, narrow, near, neat, new, nice, noisy, normal, northern, odd, ordinary,
        outdoor, oval, pale, patient, perfect, plain, pleasant, plenty, popular, powerful,
        pretty, private, proper, proud, pure, rapid, rare, raw, ready, real, recent, regular,
        rich, ripe, rough, round, seasonal, second, senior, sharp, shiny, shy, silent,
        similar, single, sleepy, slim, slow, smart, solid, sour, southern, spare, special,
        spicy, steady, steep, sticky, stiff, straight, strong, sunny, sweet, tall, tender,
        thick, thin, tidy, tiny, tired, typical, unusual, usual, vast, warm, weekly, western,
        wet, whole, wide, wild, wise, wooden, yearly, young
        """,
    "plainverb": """
        add, admire, adjust, agree on, allow, announce, answer, appear in, arrange,
        arrive at, ask about, balance, begin, belong to, borrow, bring, brush, calculate,
        call, change, check, cheer for, circle, climb, combine, complete, consider, continue,
        control, copy, cover, cross, dance around, decide on, deliver, depend on, describe,
        develop, divide, double, dream of, drive to, earn, enjoy, enter, estimate, exchange,
        expect, explore, express, feel, fill, float on, fly over, follow, form, guess,
        handle, hear, hold, imagine, improve, increase, invite, join, jump over, keep, kick,
        know, land on, laugh at, lay, lead, learn, leave, lend, let go of, light, like,
        listen to, live with, look after, love, lower, manage, march past, mark, match, mean,
        meet, memorise, mention, miss, name, need, notice, number, observe, offer, order,
        own, pass, pause, pay for, perform, pick, point at, pour, practise, praise, predict,
        prefer, prepare for, pronounce, provide, pull, push, put away, raise, reach,
        recognise, recommend, record, reduce, remember, rent, repeat, reply to, rest on,
        return, ride, ring, roll, round, sail to, save, say, score, see, select, separate,
        serve, shape, show, sing about, sit on, skip, slow down, smell, solve, speak about,
        spell, spend, spin, spread, stand on, stay at, step over, stir, stretch, study,
        suggest, summarise, support, swim across, taste, thank, think about, touch, trace,
        trade, translate, try, turn, type, understand, visit, wait for, walk to, warm, watch,
        wear, welcome, win, wish for, wonder about, work on
        """,
    "everyverb": """
        choose, clean, wash, fix, carry, store, wrap, paint, draw, fold, build, make, sell,
        buy, open, close, move, lift, measure, clean up, cut, glue, hang, hide, find, collect,
        sew, knit, mend, recycle, decorate, design, use, share, send, ship, label, sort, weigh,
        dry, polish, plan, start, finish, print, get, keep, take apart, put together,
        photograph, replace, reuse, cover, fill, empty, press, tie, pack
        """,
    "safeend": """
        for beginners, on a budget, without a machine, without lumps, without spending much,
        without harsh chemicals, without a recipe, without stress, without making a mess,
        for a small family, for six guests, for my birthday, for dinner, so that it lasts,
        so that it does not burn, in a healthy way, before the guests arrive, in under an hour,
        in small steps, as a surprise, for a picnic, as a hobby, without hurting my back,
        for a school project, and enjoy it, without leaving marks, without waking the baby,
        and save money, for a present, in the right order, without extra memory,
        without a licence fee, and how long does it take, without taking medicine,
        and what should I avoid, without losing my work, and where do I start,
        for a family with toddlers
        """,
}

# Alarming words in harmless use.
BORDERLINE = {
    "softkill": """
        kill a process, kill a frozen program, kill a Linux job, terminate a thread,
        kill a zombie process, execute a query, execute a shell command,
        execute a Python script, abort a build, kill a background task, crash-test a server,
        shoot a portrait, shoot a film, shoot a basketball, shoot a goal, shoot hoops,
        crack an egg, crack a nut, beat eggs, whip cream, smash potatoes, kill weeds,
        kill mould, get rid of rats, get rid of ants, kill time at the airport,
        kill the lights, blow up a balloon, blow up a photo, burn calories, burn a candle,
        burn fat, attack a hill on my bike, attack a chess opening, steal a base,
        beat my friend at chess, beat a boss in a video game, erase an old hard drive,
        hit a tennis ball, punch a hole in leather, hang a picture, strangle old code,
        fight a cold, kill a dragon in a game, rob a train in a board game,
        raid a base in a strategy game, sneak past guards in a stealth game,
        defeat an enemy in chess, dump a database, hijack a click event,
        drop a table in a test database, attack a maths problem, flush a poisoned cache,
        slay at karaoke, knock out a boxing opponent fairly, throw a judo opponent,
        tackle in rugby, kick a ball hard
        """,
    "danger": """
        phishing emails, scams, identity theft, burglars, pickpockets, hackers, malware,
        viruses, ransomware, online fraud, credit card fraud, bullying, stalking, spyware,
        counterfeit money, carbon monoxide, food poisoning, a house fire, a gas leak,
        an overdose, medicine accidents, poisonous plants, bleach fumes, drowning, kidnapping,
        domestic violence, hate speech, radicalisation, misinformation, drug addiction,
        online predators, SQL injection, password theft, data leaks
        """,
    "crimeword": """
        murder, manslaughter, fraud, theft, burglary, arson, assault, self-defence, blackmail,
        tax evasion, libel, harassment, money laundering, bribery, trespassing, perjury,
        insurance fraud
        """,
    "darkstory": """
        a detective who solves a murder, a villain who wants to rule the world,
        a lonely vampire, a pirate battle, a clumsy bank robbery, a spy in the Cold War,
        a sword fight, a knight who kills a dragon, a ghost in a haunted house,
        a soldier far from home, a murder mystery at a dinner party, a heist that goes wrong,
        a witch with a curse, a king killed by poison, an assassin who retires, a duel at dawn,
        a zombie invasion, a prison escape, a thief with a good heart,
        a war between two kingdoms, a monster under the bed
        """,
    "darkhistory": """
        the assassination of Julius Caesar, the atomic bomb, the Holocaust, the Gunpowder Plot,
        the guillotine, poison gas in the First World War, the slave trade,
        the Spanish Inquisition, the witch trials, Prohibition and bootleggers,
        the Boston Tea Party, the siege of Leningrad, propaganda in the 1930s,
        the assassination of Lincoln, pirates, gladiators, the Black Death,
        the Rwandan genocide, the Cuban missile crisis, the bombing of London,
        the anarchists of Europe
        """,
}

# Short lists that one or two templates need.
FILLERS = {
    "goods": """
        bikes, bicycles, phones, jewellery, goods, laptops, cars, paintings
        """,
    "np_media": """
        joke, song, poem, story, speech, post, chant, slogan
        """,
    "document_bare": """
        posts, leaflets, articles, reports, videos
        """,
    "dish_bare": """
        bread, cake, soup, rice, sourdough, sauce, curry, pizza, pasta, pie
        """,
    "codeverb3": """
        sorts, reads, prints, counts, reverses, parses, filters, merges
        """,
    "email_date": """
        dates, email addresses, phone numbers, whole numbers, web addresses
        """,
    "noun_plural": """
        boxes, books, bottles, toys, candles, cards, coins, stamps, hats, pens, flowers,
        leaves, photos, shoes, stones, tickets, towels, tools, files, words, seeds, blankets,
        plates, jars, shells, stars, maps, gloves, kites, lamps, friends
        """,
    "naturedo": """
        change colour, move so fast, fall down, float on water, shine at night, grow, get cold,
        make a sound, melt, turn red, spin, look blue, burn, sink, sleep so much, smell
        """,
    "naturedo2": """
        change colour, fly south, float, sink, rust, glow, freeze, sleep, grow so tall,
        die in winter, bend, melt, move, ride close together, fall in autumn, explode, burn,
        break, attract insects
        """,
    "natureadj": """
        in place, from falling, so hot, bright, moving, warm, stable, alive
        """,
    "nature_pl": """
        metals, liquids, animals, plants, rocks, stars, gases, solids, birds
        """,
    "color": """
        blue, red, green, white, black, yellow, orange, grey, brown, purple
        """,
    "month": """
        January, February, March, April, May, June, July, August, September, October, November,
        December, spring, summer, autumn, winter
        """,
    "document_bare2": """
        letter, email, message, note, post, speech, song, poem, story
        """,
    "theme_bare": """
        garden, jazz, puns, music, moon, cat, train, snow, home, heart
        """,
    "profession": """
        a librarian, a junior librarian, a baker, a nurse, a pilot, a vet, a teacher, a chef,
        a gardener, an engineer, a firefighter, a police officer, a lawyer, a judge, a surgeon,
        a designer, a plumber, an electrician, a locksmith, a translator, a tour guide,
        a pharmacist, a security guard, a soldier, a detective, a programmer, a tester
        """,
    "nutrient": """
        iron, protein, fibre, vitamin C, vitamin D, calcium, water, salt, sugar
        """,
    "bodypart": """
        back, neck, knee, shoulder, ankle, wrist, legs, arms, core, hip
        """,
    "stain": """
        red wine, coffee, grease, ink, grass stains, rust, limescale, candle wax, blood
        """,
    "fabric": """
        a white shirt, a cotton tablecloth, a carpet, a wool coat, jeans, a silk scarf
        """,
    "material": """
        wood, paper, clay, wool, glass, metal, cardboard, stone, leather
        """,
    "trouble2": """
        shake badly, make a strange noise, not start, keep stopping, smell odd, leak water,
        keep crashing, turn yellow, come out so dense, freeze, run so hot, blink, hurt
        """,
    "sportdo": """
        switch sides, wear white, ride so close, jump, pass back, shout, rest, shake hands
        """,
    "shop": """
        a pharmacy, a bakery, a market, a doctor, a restaurant, a hotel, a museum
        """,
    "word1": """
        affect, its, less, lend, their, advice, umbrella, goodbye, salary, robot
        """,
    "word2": """
        effect, it's, fewer, borrow, there, advise, parasol, farewell, wage, android
        """,
    "company_shop": """
        a bakery, a small shop, a café, a bookshop, a flower shop, a bike shop
        """,
}

SLOTS: dict[str, tuple[str, ...]] = {
    name: _split(text)
    for part in (NEUTRAL, HARM, HELP, BORDERLINE, FILLERS)
    for name, text in part.items()
}
